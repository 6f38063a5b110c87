"""Which times of a schedule are due, and what its misfire policy makes of them. Pure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from jobexec import clock
from jobexec.models import Misfire, Schedule
from jobexec.recurrence import Recurrence, parse

_INSTANT = timedelta(microseconds=1)


class DueTimes(NamedTuple):
    """The times to be fired now, in order, and when the schedule is due next (None: never again)."""

    fire: list[datetime]
    next_time: datetime | None


def recurrence_of(schedule: Schedule) -> Recurrence:
    """Its times. Raises InvalidSchedule for an expression or a time zone that this process cannot read."""
    return parse(schedule.expression, schedule.timezone, schedule.create_time)


def due_times(schedule: Schedule, now: datetime, threshold: timedelta, limit: int) -> DueTimes:
    """What is due of a schedule: its times from ``next_time`` until ``now``, no more than ``limit`` of them.

    A time is missed if it lies further back than ``threshold``. SKIP drops what is missed. ONCE, if something is, fires
    the last time only. ALL fires each. Reads ``next_time`` and nothing that depends on when it is asked, so it is of no
    matter which node asks, and how right its clock is. If more than ``limit`` is due, ``next_time`` is due, too.
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
    """The next times of a schedule, or of an expression, after ``start`` (default: now); fewer if it ends.

    In UTC. ``timezone`` is that of an expression (default: the setting TIME_ZONE); a schedule has its own. Whether a
    schedule is enabled does not matter. Raises :class:`~jobexec.exceptions.InvalidSchedule`.
    """
    start = (start or clock.now()).astimezone(UTC)
    recurrence = recurrence_of(target) if isinstance(target, Schedule) else parse(target, timezone, start)
    return recurrence.upcoming(start, count)
