"""Time controlled by a test."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from jobexec import clock
from jobexec.clock import FrozenClock


class ControlledClock(FrozenClock):
    """A clock of jobexec that only the test moves: due dates, retries, timers, leases and schedules use it.

    A context manager. It controls the time of jobexec, not that of Python: ``timezone.now()`` still returns the real
    time. To control both, use time-machine; you then need no controlled clock.
    """

    def advance(self, step: timedelta | float) -> datetime:
        """Move the time forward by a timedelta or a number of seconds; returns the new time."""
        return self.tick(step)

    def move_to(self, moment: datetime) -> datetime:
        """Move the time forward to an aware datetime. Raises ValueError if it is in the past or naive."""
        if moment.utcoffset() is None:
            raise ValueError(f"move_to() expects an aware datetime, got {moment!r}.")
        if moment < self.now:
            raise ValueError(f"A clock cannot go back: it is {self.now.isoformat()}, got {moment.isoformat()}.")
        return self.tick(moment.astimezone(UTC) - self.now)


def controlled_clock(start: datetime | None = None) -> ControlledClock:
    """Stop jobexec's time for a block, at ``start`` (aware; by default now).

    >>> with controlled_clock() as clock:
    ...     clock.advance(timedelta(minutes=5))
    """
    return ControlledClock(start)


def advance(step: timedelta | float) -> datetime:
    """Move the active controlled clock forward; returns the new time.

    Raises RuntimeError if there is none: under time-machine, its traveller's ``shift()`` moves the time.
    """
    frozen = clock.frozen_clock()
    if frozen is None:
        raise RuntimeError(
            "advance() moves a controlled clock, but none is active: use controlled_clock() or the fixture "
            "jobexec_clock; under time-machine, shift() of its traveller."
        )
    return frozen.tick(step)


def follow_the_process(using: str) -> None:
    """Let the time of this database be that of the process, which time-machine changes.

    An earlier executor in this process has stored how the database's clock differs from it.
    """
    clock.forget(using)
