"""Datetimes in Camunda 7's format, ``2015-10-06T16:34:42.000+0200``; output is always in UTC."""

from __future__ import annotations

from datetime import UTC, datetime

from .errors import invalid


def shown(moment: datetime | None) -> str | None:
    """Format a datetime with milliseconds."""
    if moment is None:
        return None
    utc = moment.astimezone(UTC)
    return f"{utc:%Y-%m-%dT%H:%M:%S}.{utc.microsecond // 1000:03d}+0000"


def moment(name: str, text: str) -> datetime:
    """Parse a client's datetime. Raises EngineError, which names the field, if the date, time or offset is missing."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or found.utcoffset() is None:
        raise invalid(f"{name}: expected a date like 2015-10-06T16:34:42.000+0200, got {text!r}.")
    return found
