"""The order in which jobs are acquired, as one number."""

from __future__ import annotations

from datetime import datetime, timedelta

from jobexec.conf import get_settings
from jobexec.exceptions import InvalidJob

_STRICT = timedelta(days=36_525)  # a hundred years of waiting equal one point of priority: strict in practice
MAX_PRIORITY = 1_000_000


def rank(using: str, due: datetime, priority: int) -> int:
    """Milliseconds since 1970 of ``due``, earlier by one interval per point of ``priority``; lower runs sooner.

    Ageing for nothing (our own decision): ``priority + waited / interval`` orders exactly as ``due - priority *
    interval``, and the latter does not change with time, so it can stand in an index. Without ``PRIORITY_AGEING``
    the interval is a hundred years, which is strict priority.
    """
    milliseconds = int(due.timestamp() * 1000)
    # PRIORITY_AGEING may be long and priority high: keep within the 64 bits of the column, in order. Nothing is
    # refused here: a row with an absurd priority must not keep the others of its page from moving.
    value = milliseconds - int(priority) * _interval(using)  # SQLite may hold a text, and a text times a number is long
    return max(-(2**63), min(2**63 - 1, value))


def reranked(using: str, old: int, change: int) -> int:
    """The rank of a job whose priority has changed by ``change``; what it has waited counts on."""
    return max(-(2**63), min(2**63 - 1, old - change * _interval(using)))


def check_priority(priority: int) -> None:
    """Raise :class:`~jobexec.exceptions.InvalidJob` for what is no priority."""
    whole = isinstance(priority, int) and not isinstance(priority, bool)
    if not whole or not -MAX_PRIORITY <= priority <= MAX_PRIORITY:
        raise InvalidJob(f"priority: expected a number from {-MAX_PRIORITY} to {MAX_PRIORITY}, got {priority!r}.")


def _interval(using: str) -> int:
    return (get_settings().engine(using).priority_ageing or _STRICT) // timedelta(milliseconds=1)
