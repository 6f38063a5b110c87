"""The due times of a schedule, according to its misfire policy. Pure functions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from jobexec import clock
from jobexec.models import Misfire, Schedule
from jobexec.recurrence import Recurrence, parse

_INSTANT = timedelta(microseconds=1)


class DueTimes(NamedTuple):
    """The times to fire now, in order, and when the schedule is due next (None: never again)."""

    fire: list[datetime]
    next_time: datetime | None


def recurrence_of(schedule: Schedule) -> Recurrence:
    """The schedule's times. Raises InvalidSchedule if this process cannot read the expression or time zone."""
    return parse(schedule.expression, schedule.timezone, schedule.create_time)


def due_times(schedule: Schedule, now: datetime, threshold: timedelta, limit: int) -> DueTimes:
    """The due times of a schedule, from ``next_time`` until ``now``, at most ``limit`` of them.

    A time is missed if it lies further back than ``threshold``. SKIP drops missed times. ONCE fires only the last due
    time if any time was missed. ALL fires each. Reads ``next_time`` and no state that depends on the moment of the
    call, so it does not matter which node calls it and how accurate its clock is. If more than ``limit`` times are due,
    the new ``next_time`` is due, too.
    """
    recurrence, since = recurrence_of(schedule), (schedule.next_time or now) - _INSTANT
    if schedule.misfire == Misfire.SKIP:
        since = max(since, now - threshold - _INSTANT)
    elif schedule.misfire != Misfire.ALL and _some_missed(recurrence, since, now - threshold):
        since = (recurrence.last_between(since, now) or now) - _INSTANT
    fire = recurrence.times_between(since, now, limit)
    return DueTimes(fire, recurrence.next_after(fire[-1] if fire else max(since, now)))


def _some_missed(recurrence: Recurrence, since: datetime, before: datetime) -> bool:
    first = recurrence.next_after(since)
    return first is not None and first < before


def upcoming(
    target: Schedule | str,
    count: int = 5,
    start: datetime | None = None,
    *,
    timezone: str | None = None,
) -> list[datetime]:
    """The next ``count`` times of a schedule or expression after ``start`` (default: now); fewer if it ends.

    In UTC. ``timezone`` is for an expression (default: the setting TIME_ZONE); a schedule has its own. It does not
    matter whether a schedule is enabled. Raises :class:`~jobexec.exceptions.InvalidSchedule`.
    """
    start = (start or clock.now()).astimezone(UTC)
    recurrence = recurrence_of(target) if isinstance(target, Schedule) else parse(target, timezone, start)
    return recurrence.upcoming(start, count)
