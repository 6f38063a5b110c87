"""Durations as they are stored in definitions."""

from __future__ import annotations

from datetime import timedelta

import isodate

from jobexec.conf.values import duration as parser

_parse = parser()


def duration(value: str | timedelta) -> str:
    """A duration in ISO 8601. Raises ValueError with what was expected."""
    try:
        parsed = _parse(value)
    except ValueError as error:
        raise ValueError(f"Expected {error}, got {value!r}.") from None
    return str(isodate.duration_isoformat(parsed))
