"""Time zones by name, and their wall clock times."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from difflib import get_close_matches
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

from django.conf import settings

from jobexec.exceptions import InvalidSchedule
from jobexec.json_values import shown

_MINUTE = timedelta(minutes=1)
_NEAR = timedelta(hours=3)  # more than clocks are moved in one night


def zone_named(name: Any = None) -> str:
    """The name of an existing time zone; None is that of Django's setting TIME_ZONE.

    Raises :class:`~jobexec.exceptions.InvalidSchedule` for any other value.
    """
    name = settings.TIME_ZONE if name is None else name
    find_zone(name)
    return str(name)


def find_zone(name: Any) -> tzinfo:
    """The time zone with this name. Raises InvalidSchedule, which suggests a similar name."""
    found = _zone(name) if isinstance(name, str) and name and len(name) <= 64 else None
    if found is None:
        close = get_close_matches(name, available_timezones(), n=1) if isinstance(name, str) else []
        hint = f" Did you mean {close[0]!r}?" if close else ""
        text = f"timezone: expected the name of a time zone such as 'Europe/Berlin' or 'UTC', got {shown(name)}.{hint}"
        raise InvalidSchedule(text, "timezone")
    return found


@lru_cache(maxsize=64)
def _zone(name: str) -> tzinfo | None:
    if name == "UTC":
        return UTC  # its arithmetic is faster, with the same results
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # "Europe" is a directory
        return None


def at_wall_clock(wall: datetime, zone: tzinfo) -> datetime:
    """When the clocks of the zone show this, in UTC: the first time if they show it twice; the end of the gap if they
    never show it."""
    while True:
        moment = wall.replace(tzinfo=zone, fold=0).astimezone(UTC)
        if shown_at(moment, zone) == wall:
            return moment
        wall += _MINUTE


def shown_at(moment: datetime, zone: tzinfo) -> datetime:
    """The local time of the zone, as a naive datetime."""
    return moment.astimezone(zone).replace(tzinfo=None, fold=0)


def moments_of(wall: datetime, zone: tzinfo) -> list[datetime]:
    """When the clocks of the zone show this, in UTC: once, twice or never."""
    moments = sorted({wall.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1)})
    return [moment for moment in moments if shown_at(moment, zone) == wall]


def moved_near(moment: datetime, zone: tzinfo) -> timedelta:
    """How far the clocks of the zone are moved if a change is no further away than that; nearly always nothing."""
    moved = abs(_offset(moment + _NEAR, zone) - _offset(moment - _NEAR, zone))
    near = moved and _offset(moment + moved, zone) != _offset(moment - moved, zone)
    return moved if near else timedelta(0)


def _offset(moment: datetime, zone: tzinfo) -> timedelta:
    return moment.astimezone(zone).utcoffset() or timedelta(0)
