"""Checks of caller arguments; each error names the argument and what was expected."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from jobexec.exceptions import InvalidJob


def check_moment(name: str, moment: Any) -> datetime | None:
    """Return the moment in UTC, None for None. Raises InvalidJob for a naive datetime or another type."""
    if moment is None:
        return None
    if not isinstance(moment, datetime):
        raise InvalidJob(f"{name}: expected an aware datetime, got {moment!r}.")
    if moment.utcoffset() is None:
        raise InvalidJob(f"{name}: expected a datetime with a time zone, got the naive {moment!r}.")
    try:
        # PostgreSQL would store a moment that is past the year 9999 in UTC, and the row could not be read again.
        return moment.astimezone(UTC)
    except OverflowError:
        raise InvalidJob(f"{name}: expected a moment from the year 1 to 9999 in UTC, got {moment!r}.") from None


def check_retries(retries: int) -> None:
    """Raise :class:`~jobexec.exceptions.InvalidJob` unless this is a number of attempts."""
    if not isinstance(retries, int) or isinstance(retries, bool) or retries < 1:
        raise InvalidJob(f"retries: expected a whole number of at least 1, got {retries!r}.")
