"""The time window of the history cleanup (Camunda: its batch window)."""

from __future__ import annotations

from datetime import datetime, time, timedelta
from typing import TypeAlias

from django.utils import timezone

Window: TypeAlias = tuple[time, time]

_DAY = timedelta(days=1)


def seconds_until_open(window: Window | None, now: datetime) -> float:
    """Return 0 within the window, otherwise the seconds until it begins; None is always open.

    The times are wall-clock times in the project's TIME_ZONE; a window may span midnight.
    """
    if window is None:
        return 0.0
    begin, end = window
    local = timezone.localtime(now, timezone.get_default_timezone())
    at = local.time()
    if begin <= at < end if begin < end else at >= begin or at < end:
        return 0.0
    wait = timedelta(hours=begin.hour - at.hour, minutes=begin.minute - at.minute, seconds=begin.second - at.second)
    return (wait % _DAY).total_seconds() or 1.0  # in wall-clock time: clocks may be put forward or back meanwhile
