"""Checks of caller arguments; each error names the argument and what was expected."""

from __future__ import annotations

from jobexec.exceptions import InvalidJob
from jobexec.json_values import shown

MOST_RETRIES = 2**31 - 1


def check_retries(retries: int) -> None:
    """Raise :class:`~jobexec.exceptions.InvalidJob` unless this is a number of attempts."""
    if not isinstance(retries, int) or isinstance(retries, bool) or retries < 1:
        raise InvalidJob(f"retries: expected a whole number of at least 1, got {shown(retries)}.")
    if retries > MOST_RETRIES:
        raise InvalidJob(f"retries: expected a whole number of at most {MOST_RETRIES}, got {shown(retries)}.")
