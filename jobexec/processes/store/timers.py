"""Compute when a timer of a model fires."""

from __future__ import annotations

import re
from datetime import date, datetime, time, timedelta, timezone
from typing import Any

import isodate
from django.utils.dateparse import parse_datetime
from django.utils.timezone import get_default_timezone, localtime

from jobexec import clock
from jobexec.exceptions import InvalidSchedule
from jobexec.recurrence import parse
from jobexec.recurrence.cycle import Cycle, with_start
from jobexec.recurrence.zones import find_zone

from ..definition import TimerKind
from ..engine.exceptions import StepError
from ..engine.rows import Timer

_FORMS = {
    TimerKind.DATE: "a date or a time such as 2026-01-31T12:00:00Z",
    TimerKind.DURATION: "a duration such as PT5M",
    TimerKind.CYCLE: "a cycle such as R3/PT10M, or a cron expression",
}
#: Java, and so Camunda 8, writes the name of the zone after the offset: 2026-07-31T12:00:00+02:00[Europe/Berlin].
_NAMED = re.compile(r"(Z|[+-]\d\d:\d\d)\[([^\[\]]+)\]")


def first(element: str, timer: Timer, now: datetime) -> tuple[datetime, str]:
    """When a timer that is armed now fires first, and for a cycle that goes on, its text for :func:`following`.

    Raises StepError if its value, which an expression may have given, is no such time.
    """
    try:
        if timer.kind is TimerKind.DATE:
            return _date(timer.when), ""
        if timer.kind is TimerKind.DURATION:
            return now + _duration(timer.when, now), ""
        text = with_start(_unnamed(timer.when), now)
        due = parse(text, anchor=now).next_after(now)
        if due is None:
            raise ValueError("its last time is over")
    except (ValueError, OverflowError, TypeError, InvalidSchedule) as error:
        expected = _FORMS[timer.kind]
        raise StepError(element, f"The timer expects {expected}, got {timer.when!r} ({error}).") from None
    return due, text if timer.repeats else ""


def following(repeat: str, planned: datetime, now: datetime) -> datetime | None:
    """When a cycle fires after the time for which it was planned; None if that was the last time.

    Times that are over are left out, unless the cycle has a number of repetitions.
    """
    found = parse(repeat, anchor=planned)
    counts = isinstance(found, Cycle) and found.count is not None
    return found.next_after(planned if counts else max(planned, now))


def local_now(using: str) -> datetime:
    """What the function ``now()`` gives: the current time with the offset of the project's time zone, TIME_ZONE."""
    local = localtime(clock.now(using), get_default_timezone())
    # FEEL writes a named zone as @Europe/Berlin, which is not ISO 8601: workers could not parse it.
    return local.replace(tzinfo=timezone(local.utcoffset() or timedelta()))


def of_cycle(repeat: str, planned: datetime) -> dict[str, str]:
    """The arguments of a timer's job that belong to its cycle: operators and retries change the due date of the job."""
    return {"repeat": repeat, "planned": planned.isoformat()} if repeat else {}


def _date(value: Any) -> datetime:
    text = _unnamed(value)
    found = value if isinstance(value, date) else parse_datetime(text) or isodate.parse_date(text)
    if not isinstance(found, datetime):
        found = datetime.combine(found, time())
    return found if found.tzinfo else found.replace(tzinfo=get_default_timezone())


def _unnamed(value: Any) -> str:
    """The text without names of zones: the offset says the moment. Raises InvalidSchedule for an unknown zone."""
    text = str(value)
    for _, zone in _NAMED.findall(text):
        find_zone(zone)
    return _NAMED.sub(r"\1", text)


def _duration(value: Any, now: datetime) -> timedelta:
    if isinstance(value, timedelta):
        return value
    found = isodate.parse_duration(str(value))
    return found if isinstance(found, timedelta) else found.totimedelta(start=now)
