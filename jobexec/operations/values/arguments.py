"""Checks of caller arguments; each error names the argument and what was expected."""

from __future__ import annotations

from jobexec.exceptions import InvalidJob


def check_retries(retries: int) -> None:
    """Raise :class:`~jobexec.exceptions.InvalidJob` unless this is a number of attempts."""
    if not isinstance(retries, int) or isinstance(retries, bool) or retries < 1:
        raise InvalidJob(f"retries: expected a whole number of at least 1, got {retries!r}.")
