"""The acquisition order of jobs as one number."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import connections
from django.db.models import BigIntegerField, F, Value
from django.db.models.expressions import CombinedExpression

from jobexec.conf import get_settings
from jobexec.exceptions import InvalidJob

from ..sql.dialect import dialect

_STRICT = timedelta(days=36_525)  # one point of priority equals a hundred years of waiting: strict in practice
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_LEAST, _MOST = -(2**63), 2**63 - 1
MAX_PRIORITY = 1_000_000


def rank(using: str, due: datetime, priority: int) -> int:
    """Return ``due`` in milliseconds since 1970, minus one interval per point of ``priority``; lower runs sooner.

    This gives ageing at no cost (our own decision): ``priority + waited / interval`` orders exactly as ``due - priority
    * interval``, and the latter does not change with time, so it can be indexed. Without ``PRIORITY_AGEING`` the
    interval is a hundred years, which is strict priority.
    """
    milliseconds = (due - _EPOCH) // _MILLISECOND  # in integers: exactly as rank_sql()
    # PRIORITY_AGEING may be long and priority high: clamp to the 64 bits of the column, which keeps the order. No error
    # is raised here: a row with an absurd priority must not keep the others of its page from moving.
    value = milliseconds
    if priority:  # most have none, and are spared the look at the settings
        value -= int(priority) * interval(using)  # SQLite may hold a text, and text * int repeats it
    return max(_LEAST, min(_MOST, value))


def rank_sql(using: str, now: datetime, *, own: bool = True) -> tuple[str, tuple[Any, ...]] | None:
    """Return the rank as SQL over the columns of a row ``source``; without a due date it is due ``now``.

    It computes with decimals until the end: a priority times an interval may be longer than 64 bits. Without ``own``
    the due date of the row is ignored. None where the database has only 64-bit integers (SQLite).
    """
    connection, spelled = connections[using], dialect(using)
    if spelled.rank is None:
        return None
    text = spelled.rank.format(_LEAST, _MOST)
    if not own:
        text = text.replace("source.due_date", "NULL")
    return text, (connection.ops.adapt_datetimefield_value(now), interval(using))


def due_by_rank(using: str) -> CombinedExpression:
    """Return an expression for the time since which an executable job is due, in milliseconds since 1970.

    It uses the rank, which is more accurate than the dates: a requeued job is due since it was requeued. Only for
    priorities up to :data:`MAX_PRIORITY`; others may need more than 64 bits.
    """
    return F("rank") + F("priority") * Value(interval(using), output_field=BigIntegerField())


def reranked(using: str, old: int, change: int) -> int:
    """Return the rank of a job whose priority has changed by ``change``; its waiting time still counts."""
    return max(_LEAST, min(_MOST, old - change * interval(using)))


def check_priority(priority: int) -> None:
    """Raise :class:`~jobexec.exceptions.InvalidJob` unless this is a priority."""
    whole = isinstance(priority, int) and not isinstance(priority, bool)
    if not whole or not -MAX_PRIORITY <= priority <= MAX_PRIORITY:
        raise InvalidJob(f"priority: expected a number from {-MAX_PRIORITY} to {MAX_PRIORITY}, got {priority!r}.")


def interval(using: str) -> int:
    """Return the milliseconds of waiting that equal one point of priority."""
    return (get_settings().engine(using).priority_ageing or _STRICT) // _MILLISECOND
