"""The only source of the current time.

Nothing else in jobexec asks the operating system for the time. After :func:`synchronise` the time of a database alias
is that database's own, continued by the monotonic clock, so that neither a wrong clock of a node nor a step of it moves
a lease or a timer. (Own decision: Camunda and Flowable trust the clock of each node.)
"""

from __future__ import annotations

import math
import threading
import time
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import NamedTuple, Self


class _Reading(NamedTuple):
    database_time: datetime
    at: float
    #: The wall clock at that moment: where it differs from the monotonic one later, the machine slept.
    wall: float


_SLEEP = 0.5
_wall = time.time

_readings: dict[str, _Reading] = {}
_frozen: FrozenClock | None = None


def now(using: str = "default") -> datetime:
    """The current time as an aware datetime in UTC.

    ``using`` is a database alias. Before :func:`synchronise` was called for it, this is the wall clock's time. A new
    synchronisation may step the time back by the error of the previous one.
    """
    frozen = _frozen
    if frozen is not None:
        return frozen.now
    reading = _readings.get(using)
    if reading is None:
        return datetime.now(UTC)
    return reading.database_time + timedelta(seconds=time.monotonic() - reading.at)


def is_frozen() -> bool:
    """Whether a test has stopped the time (:class:`FrozenClock`)."""
    return _frozen is not None


def frozen_clock() -> FrozenClock | None:
    """The frozen clock of a test, if there is one."""
    return _frozen


def monotonic() -> float:
    """Seconds since an unspecified moment; never steps back. For durations and for :func:`synchronise`."""
    frozen = _frozen
    return time.monotonic() if frozen is None else frozen.monotonic


def synchronise(using: str, database_time: datetime, at: float) -> None:
    """From now on the time of the alias ``using`` is ``database_time`` plus the time passed since ``at``.

    ``at`` is a reading of :func:`monotonic`: if taken after the time was fetched, :func:`now` is never ahead. Called at
    every heartbeat, also because the monotonic clock of Linux stops while the machine is suspended. Raises ValueError
    for a naive ``database_time``. Without effect on a frozen clock.
    """
    if database_time.utcoffset() is None:
        raise ValueError(f"synchronise() expects an aware datetime, got {database_time!r}.")
    if _frozen is None:
        passed = time.monotonic() - at
        _readings[using] = _Reading(database_time.astimezone(UTC), at, _wall() - passed)


def is_stale(using: str, after: float) -> bool:
    """Whether the time of ``using`` was not synchronised for ``after`` seconds, or the machine slept since."""
    if _frozen is not None:
        return False
    reading = _readings.get(using)
    if reading is None:
        return True
    passed = time.monotonic() - reading.at
    return passed > after or abs(_wall() - reading.wall - passed) > _SLEEP


def forget(using: str | None = None) -> None:
    """Undo :func:`synchronise` for one alias, or for all of them; the wall clock applies again."""
    if using is None:
        _readings.clear()
    else:
        _readings.pop(using, None)


class FrozenClock:
    """For tests: stops :func:`now` and :func:`monotonic` for the whole process, until :meth:`tick` moves them.

    ``start`` is an aware datetime, by default the current time. A context manager; if nested, the innermost one
    applies. All threads see the same time.

    >>> with FrozenClock() as clock:
    ...     clock.tick(90)
    """

    def __init__(self, start: datetime | None = None) -> None:
        if start is not None and start.utcoffset() is None:
            raise ValueError(f"FrozenClock expects an aware datetime, got {start!r}.")
        self._lock = threading.Lock()
        self._now = datetime.now(UTC) if start is None else start.astimezone(UTC)
        # A whole number: sums of whole seconds are then exact, and a wait of 30 s is over after three ticks of 10.
        self._monotonic = float(math.ceil(time.monotonic()))
        self._outer: list[FrozenClock | None] = []

    @property
    def now(self) -> datetime:
        """The current time of this clock, aware, in UTC."""
        with self._lock:
            return self._now

    @property
    def monotonic(self) -> float:
        """The reading of the monotonic clock, in seconds; moves together with :attr:`now`."""
        with self._lock:
            return self._monotonic

    def tick(self, step: timedelta | float = 1.0) -> datetime:
        """Move the time forward by a timedelta or a number of seconds; returns the new time.

        Raises ValueError for a negative step: the monotonic clock cannot go back.
        """
        delta = step if isinstance(step, timedelta) else timedelta(seconds=step)
        if delta < timedelta(0):
            raise ValueError(f"A clock cannot tick backwards: {step!r}.")
        with self._lock:
            self._now += delta
            self._monotonic += delta.total_seconds()
            return self._now

    def __enter__(self) -> Self:
        global _frozen
        self._outer.append(_frozen)
        _frozen = self
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        global _frozen
        _frozen = self._outer.pop()
