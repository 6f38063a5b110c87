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

#: The maximum number of workers in memory; beyond it, those not seen for the longest time are dropped. A client may use
#: a different worker name for each request.
MOST_WORKERS = 10_000
#: The lengths of the columns protocol, client, worker and type.
_LENGTHS = (16, 150, 200, 255)
#: Limits for the tenants of a worker and the variables of a stream: their number, and the length of a name.
_MOST_NAMES, _LONGEST_NAME = 100, 255


def _storable(name: str, most: int) -> str:
    """Cut the name, and remove characters that databases cannot store: they would prevent the write of all rows."""
    return name[:most].replace("\0", "").encode("utf-8", "replace").decode()


def _storable_names(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(_storable(name, _LONGEST_NAME) for name in islice(names, _MOST_NAMES))


class Key(NamedTuple):
    """The identity of a worker: protocol, client, worker name and job type."""

    protocol: str
    client: str
    worker: str
    type: str

    @classmethod
    def of(cls, *names: str) -> Key:
        """Build a key with the names as the columns hold them."""
        return cls(*(_storable(name, most) for name, most in zip(names, _LENGTHS, strict=True)))


@dataclass(frozen=True, slots=True)
class Stream:
    """An open stream. ``id`` is unique to it; ``timeout`` is the lock duration of the jobs that it receives."""

    key: Key
    tenants: tuple[str, ...] = ()
    timeout: timedelta | None = None
    variables: tuple[str, ...] = ()
    tenant_filter: str = "PROVIDED"
    id: str = field(default_factory=lambda: str(uuid4()))

    def as_dict(self) -> dict[str, Any]:
        """Serialise for the actuator and the column; ``timeout`` in Java's duration format ("PT10S")."""
        return {
            "id": self.id,
            "timeout": None if self.timeout is None else f"PT{self.timeout.total_seconds():g}S",
            "fetchVariables": list(self.variables),
            "tenantIds": list(self.tenants),
            "tenantFilter": self.tenant_filter,
        }


@dataclass(slots=True)
class WorkerRecord:
    """The record of a worker. ``first_seen`` and ``last_seen`` are readings of the monotonic clock."""

    key: Key
    first_seen: float
    last_seen: float
    tenants: tuple[str, ...] = ()
    polls: int = 0
    streams: dict[str, Stream] = field(default_factory=dict)
    activated: int = 0
    #: Increased by each change; compared with the version that was written last.
    version: int = 0

    @property
    def present(self) -> bool:
        """Whether the worker waits or streams now; as long as it does, it counts as seen."""
        return bool(self.polls or self.streams)

    def copy(self) -> WorkerRecord:
        """Return a snapshot. Hold the registry's lock to call it."""
        return WorkerRecord(
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
    """The workers and counters of a process. Thread-safe. ``on_use`` is called for each sighting, outside the lock."""

    def __init__(self, on_use: Callable[[], None] = lambda: None) -> None:
        self._on_use = on_use
        self.clear()

    def clear(self) -> None:
        """Forget everything. In a forked process no worker has been seen yet, and the old lock may be held for ever."""
        self._lock = threading.Lock()
        self._seen: dict[tuple[str, str, str, str], WorkerRecord] = {}
        self._counts = Counts()
        self._versions = count(1)

    def polled(self, protocol: str, client: str, worker: str, type: str, tenants: Iterable[str] = ()) -> None:
        """Count a request for jobs."""
        with self._lock:
            self._counts.polls[protocol] += 1
            self._touch(protocol, client, worker, type, tenants)
        self._on_use()

    def waiting(self, protocol: str, client: str, worker: str, type: str, tenants: Iterable[str] = ()) -> Waiting:
        """Context manager for the wait of a poll: ``with registry.waiting(...)``."""
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
        """Context manager for the life of a stream: ``with registry.streaming(...) as stream``."""
        key = Key.of(protocol, client, worker, type)
        of_tenants, of_variables = _storable_names(tenants), _storable_names(variables)
        return Streaming(self, Stream(key, of_tenants, timeout, of_variables, tenant_filter))

    def activated(self, type: str, worker: str, n: int, *, protocol: str = "", client: str = "") -> None:
        """Count ``n`` jobs that a worker has received."""
        if n:
            with self._lock:
                self._counts.event(ACTIVATED, type, n)
                self._touch(protocol, client, worker, type, None).activated += n
            self._on_use()

    def finished(self, action: str, type: str, n: int = 1) -> None:
        """Count an event of ``n`` jobs of a type. Raises ValueError for an unknown action."""
        with self._lock:
            self._counts.event(action, type, n)

    def pushed(self, n: int = 1) -> None:
        """Count ``n`` jobs written to streams."""
        with self._lock:
            self._counts.pushed += n

    def push_failed(self, code: str) -> None:
        """Count a job that could not be written to a stream."""
        with self._lock:
            self._counts.push_failure(code)

    def counts(self) -> Counts:
        """Return a snapshot of the counters."""
        with self._lock:
            return self._counts.copy()

    def sights(self, newer_than: int = 0, *, present: bool = True) -> list[WorkerRecord]:
        """Return a snapshot of the workers that have changed since version ``newer_than``.

        With ``present`` also of those that wait or stream now, and have not.
        """
        with self._lock:
            seen = self._seen.values()
            return [each.copy() for each in seen if (present and each.present) or each.version > newer_than]

    def forget(self, before: float) -> None:
        """Drop the workers that were last seen before this reading of the monotonic clock."""
        with self._lock:
            self._seen = {key: each for key, each in self._seen.items() if each.present or each.last_seen >= before}

    def _enter(self, names: tuple[str, str, str, str], tenants: Iterable[str], stream: Stream | None) -> WorkerRecord:
        with self._lock:
            sight = self._touch(*names, tenants)
            if stream is None:
                sight.polls += 1
            else:
                sight.streams[stream.id] = stream
        self._on_use()
        return sight

    def _leave(self, sight: WorkerRecord, stream: Stream | None) -> None:
        with self._lock:
            if stream is None:
                sight.polls -= 1
            else:
                sight.streams.pop(stream.id, None)
            sight.last_seen, sight.version = clock.monotonic(), next(self._versions)

    def _touch(self, protocol: str, client: str, worker: str, type: str, tenants: Iterable[str] | None) -> WorkerRecord:
        """Mark a worker as seen now and return its record. The caller holds the lock."""
        now, names = clock.monotonic(), (protocol, client, worker, type)
        sight = self._seen.get(names)
        if sight is None:
            sight = self._add(names, now)
        sight.last_seen, sight.version = now, next(self._versions)
        if tenants is not None:
            sight.tenants = _storable_names(tenants)
        return sight

    def _add(self, names: tuple[str, str, str, str], now: float) -> WorkerRecord:
        key = Key.of(*names)
        # Look up by the cut names, so that two long names share a row. Names that fit need no second look-up.
        sight = self._seen.get(key)
        if sight is not None:
            return sight
        if len(self._seen) >= MOST_WORKERS:
            idle = sorted((each.last_seen, key) for key, each in self._seen.items() if not each.present)
            for _, old in idle[: max(1, MOST_WORKERS // 10)]:
                del self._seen[old]
        sight = self._seen[key] = WorkerRecord(key, now, now)
        return sight


class Waiting:
    """Context manager for a poll that waits for a job."""

    __slots__ = ("_names", "_record", "_registry", "_tenants")

    def __init__(self, registry: Registry, names: tuple[str, str, str, str], tenants: Iterable[str]) -> None:
        self._registry, self._names, self._tenants = registry, names, tenants
        self._record: WorkerRecord | None = None

    def __enter__(self) -> Self:
        self._record = self._registry._enter(self._names, self._tenants, None)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        sight, self._record = self._record, None
        if sight is not None:
            self._registry._leave(sight, None)


class Streaming:
    """Context manager for a stream that is open for the duration of the block."""

    __slots__ = ("_record", "_registry", "stream")

    def __init__(self, registry: Registry, stream: Stream) -> None:
        self._registry, self.stream = registry, stream
        self._record: WorkerRecord | None = None

    def __enter__(self) -> Stream:
        self._record = self._registry._enter(self.stream.key, self.stream.tenants, self.stream)
        return self.stream

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        sight, self._record = self._record, None
        if sight is not None:
            self._registry._leave(sight, self.stream)
