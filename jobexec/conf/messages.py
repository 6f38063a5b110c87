"""Limits for messages: their names, and how long they are kept and jobs wait for them; times that can be stored."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from jobexec.exceptions import InvalidJob
from jobexec.json_values import check_storable, shown

from . import values

#: The lengths of these columns.
NAME_LENGTH, LENGTH, TENANT_LENGTH = 128, 255, 64

_DURATION = values.duration(zero=True)


def check_name(field: str, value: Any) -> str:
    """Return the name of a message. Raises :class:`~jobexec.exceptions.InvalidJob`, which names the ``field``."""
    return check_text(field, value, NAME_LENGTH)


def check_key(field: str, value: Any) -> str:
    """Return the key of a message as a text; a whole number or a UUID is converted. Raises InvalidJob."""
    if isinstance(value, UUID) or (isinstance(value, int) and not isinstance(value, bool)):
        # Python refuses to write a number of thousands of digits.
        value = str(value) if int(value).bit_length() < 4 * LENGTH else value
    return check_text(field, value, LENGTH)


def check_text(field: str, value: Any, longest: int) -> str:
    """Return a text that is not blank. Raises InvalidJob, which names the ``field``."""
    if not isinstance(value, str) or not 0 < len(value) <= longest or not value.strip():
        raise InvalidJob(f"{field}: expected a string of 1 to {longest} characters, got {shown(value)}.")
    check_storable(field, value)
    if value.endswith(" "):  # MySQL and MariaDB ignore trailing spaces in comparisons
        raise InvalidJob(f"{field}: expected a string that does not end with a space, got {shown(value)}.")
    return value


def check_duration(field: str, value: Any) -> timedelta:
    """Return a duration given as a timedelta, as seconds or as an ISO 8601 text. Raises InvalidJob."""
    try:
        duration: timedelta = _DURATION(value)
    except ValueError as error:
        raise InvalidJob(f"{field}: expected {error}, got {shown(value)}.") from None
    return duration


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
