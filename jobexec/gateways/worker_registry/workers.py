"""The workers that this process has seen, in memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count, islice
from types import TracebackType
from typing import Any, NamedTuple, Self
from uuid import uuid4

from jobexec import clock

from .counts import ACTIVATED, Counts

#: Workers that are remembered; beyond it those that were not seen for longest are forgotten. A client may call itself
#: something else each time it asks.
MOST_WORKERS = 10_000
#: The length of the columns: protocol, client, worker, type.
_LENGTHS = (16, 150, 200, 255)
#: Of the tenants of a worker, and the variables of a stream: how many are kept, and how long one is.
_MOST_NAMES, _LONGEST_NAME = 100, 255


def _storable(name: str, most: int) -> str:
    """Not too long, and without what no database stores, which would keep all others from being written, too."""
    return name[:most].replace("\0", "").encode("utf-8", "replace").decode()


def _storable_names(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(_storable(name, _LONGEST_NAME) for name in islice(names, _MOST_NAMES))


class Key(NamedTuple):
    """Who asks, and for what."""

    protocol: str
    client: str
    worker: str
    type: str

    @classmethod
    def of(cls, *names: str) -> Key:
        """As the columns hold them."""
        return cls(*(_storable(name, most) for name, most in zip(names, _LENGTHS, strict=True)))


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream that is open. ``id`` is its own; ``timeout`` that of the jobs it is sent."""

    key: Key
    tenants: tuple[str, ...] = ()
    timeout: timedelta | None = None
    variables: tuple[str, ...] = ()
    tenant_filter: str = "PROVIDED"
    id: str = field(default_factory=lambda: str(uuid4()))

    def as_dict(self) -> dict[str, Any]:
        """For the actuator, and for the column; ``timeout`` as Java writes a duration ("PT10S")."""
        return {
            "id": self.id,
            "timeout": None if self.timeout is None else f"PT{self.timeout.total_seconds():g}S",
            "fetchVariables": list(self.variables),
            "tenantIds": list(self.tenants),
            "tenantFilter": self.tenant_filter,
        }


@dataclass(slots=True)
class Sight:
    """What is known of one worker. ``first_seen`` and ``last_seen`` are readings of the monotonic clock."""

    key: Key
    first_seen: float
    last_seen: float
    tenants: tuple[str, ...] = ()
    polls: int = 0
    streams: dict[str, Stream] = field(default_factory=dict)
    activated: int = 0
    #: Raised by each change; what is written is compared with it.
    version: int = 0

    @property
    def present(self) -> bool:
        """It waits or streams this moment, and so is seen as long as it does."""
        return bool(self.polls or self.streams)

    def copy(self) -> Sight:
        """A snapshot; whoever takes it holds the lock of the registry."""
        return Sight(
            self.key,
            self.first_seen,
            self.last_seen,
            self.tenants,
            self.polls,
            dict(self.streams),
            self.activated,
            self.version,
        )


class Registry:
    """Thread-safe. ``on_use`` is called at the first sight of a worker, outside of the lock."""

    def __init__(self, on_use: Callable[[], None] = lambda: None) -> None:
        self._on_use = on_use
        self.clear()

    def clear(self) -> None:
        """Forget everything: a process that was forked has seen nobody yet, and its lock may be held for ever."""
        self._lock = threading.Lock()
        self._seen: dict[tuple[str, str, str, str], Sight] = {}
        self._counts = Counts()
        self._versions = count(1)

    def polled(self, protocol: str, client: str, worker: str, type: str, tenants: Iterable[str] = ()) -> None:
        """A request asks for jobs."""
        with self._lock:
            self._counts.polls[protocol] += 1
            self._touch(protocol, client, worker, type, tenants)
        self._on_use()

    def waiting(self, protocol: str, client: str, worker: str, type: str, tenants: Iterable[str] = ()) -> Waiting:
        """Around the wait of a poll: ``with seen.waiting(...)``."""
        return Waiting(self, (protocol, client, worker, type), tenants)

    def streaming(
        self,
        protocol: str,
        client: str,
        worker: str,
        type: str,
        tenants: Collection[str] = (),
        *,
        timeout: timedelta | None = None,
        variables: Iterable[str] = (),
        tenant_filter: str = "PROVIDED",
    ) -> Streaming:
        """Around the life of a stream: ``with seen.streaming(...) as stream``."""
        key = Key.of(protocol, client, worker, type)
        of_tenants, of_variables = _storable_names(tenants), _storable_names(variables)
        return Streaming(self, Stream(key, of_tenants, timeout, of_variables, tenant_filter))

    def activated(self, type: str, worker: str, n: int, *, protocol: str = "", client: str = "") -> None:
        """``n`` jobs have been given to a worker."""
        if n:
            with self._lock:
                self._counts.event(ACTIVATED, type, n)
                self._touch(protocol, client, worker, type, None).activated += n
            self._on_use()

    def finished(self, action: str, type: str, n: int = 1) -> None:
        """Something has become of ``n`` jobs of a type. Raises ValueError for an action that is none."""
        with self._lock:
            self._counts.event(action, type, n)

    def pushed(self, n: int = 1) -> None:
        """``n`` jobs have been written to streams."""
        with self._lock:
            self._counts.pushed += n

    def push_failed(self, code: str) -> None:
        """A job could not be written to a stream."""
        with self._lock:
            self._counts.push_failure(code)

    def counts(self) -> Counts:
        """A snapshot of the counters."""
        with self._lock:
            return self._counts.copy()

    def sights(self, newer_than: int = 0) -> list[Sight]:
        """A snapshot of the workers: of those that are here now, and of all that have changed after a version."""
        with self._lock:
            return [each.copy() for each in self._seen.values() if each.present or each.version > newer_than]

    def forget(self, before: float) -> None:
        """Drop who has not been seen since this reading of the monotonic clock."""
        with self._lock:
            self._seen = {key: each for key, each in self._seen.items() if each.present or each.last_seen >= before}

    def _enter(self, names: tuple[str, str, str, str], tenants: Iterable[str], stream: Stream | None) -> Sight:
        with self._lock:
            sight = self._touch(*names, tenants)
            if stream is None:
                sight.polls += 1
            else:
                sight.streams[stream.id] = stream
        self._on_use()
        return sight

    def _leave(self, sight: Sight, stream: Stream | None) -> None:
        with self._lock:
            if stream is None:
                sight.polls -= 1
            else:
                sight.streams.pop(stream.id, None)
            sight.last_seen, sight.version = clock.monotonic(), next(self._versions)

    def _touch(self, protocol: str, client: str, worker: str, type: str, tenants: Iterable[str] | None) -> Sight:
        """The row of a worker, which is seen now. With the lock."""
        now, names = clock.monotonic(), (protocol, client, worker, type)
        sight = self._seen.get(names)
        if sight is None:
            sight = self._add(names, now)
        sight.last_seen, sight.version = now, next(self._versions)
        if tenants is not None:
            sight.tenants = _storable_names(tenants)
        return sight

    def _add(self, names: tuple[str, str, str, str], now: float) -> Sight:
        key = Key.of(*names)
        # By the cut name, so that two long ones are one row; there is no second look-up for those that fit.
        sight = self._seen.get(key)
        if sight is not None:
            return sight
        if len(self._seen) >= MOST_WORKERS:
            idle = sorted((each.last_seen, key) for key, each in self._seen.items() if not each.present)
            for _, old in idle[: max(1, MOST_WORKERS // 10)]:
                del self._seen[old]
        sight = self._seen[key] = Sight(key, now, now)
        return sight


class Waiting:
    """A poll that waits for a job."""

    __slots__ = ("_names", "_registry", "_sight", "_tenants")

    def __init__(self, registry: Registry, names: tuple[str, str, str, str], tenants: Iterable[str]) -> None:
        self._registry, self._names, self._tenants = registry, names, tenants
        self._sight: Sight | None = None

    def __enter__(self) -> Self:
        self._sight = self._registry._enter(self._names, self._tenants, None)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        sight, self._sight = self._sight, None
        if sight is not None:
            self._registry._leave(sight, None)


class Streaming:
    """A stream that is open as long as the block."""

    __slots__ = ("_registry", "_sight", "stream")

    def __init__(self, registry: Registry, stream: Stream) -> None:
        self._registry, self.stream = registry, stream
        self._sight: Sight | None = None

    def __enter__(self) -> Stream:
        self._sight = self._registry._enter(self.stream.key, self.stream.tenants, self.stream)
        return self.stream

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        sight, self._sight = self._sight, None
        if sight is not None:
            self._registry._leave(sight, self.stream)
