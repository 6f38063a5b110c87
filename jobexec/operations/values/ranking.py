"""The order in which jobs are acquired, as one number."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import connections
from django.db.models import BigIntegerField, F, Value
from django.db.models.expressions import CombinedExpression

from jobexec.conf import get_settings
from jobexec.exceptions import InvalidJob

from ..sql.dialect import dialect

_STRICT = timedelta(days=36_525)  # a hundred years of waiting equal one point of priority: strict in practice
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_LEAST, _MOST = -(2**63), 2**63 - 1
MAX_PRIORITY = 1_000_000


def rank(using: str, due: datetime, priority: int) -> int:
    """Milliseconds since 1970 of ``due``, earlier by one interval per point of ``priority``; lower runs sooner.

    Ageing for nothing (our own decision): ``priority + waited / interval`` orders exactly as ``due - priority *
    interval``, and the latter does not change with time, so it can stand in an index. Without ``PRIORITY_AGEING``
    the interval is a hundred years, which is strict priority.
    """
    milliseconds = (due - _EPOCH) // _MILLISECOND  # in whole numbers: exactly what rank_sql() says
    # PRIORITY_AGEING may be long and priority high: keep within the 64 bits of the column, in order. Nothing is
    # refused here: a row with an absurd priority must not keep the others of its page from moving.
    value = milliseconds - int(priority) * interval(using)  # SQLite may hold a text, and a text times a number is long
    return max(_LEAST, min(_MOST, value))


def rank_sql(using: str, now: datetime, *, own: bool = True) -> tuple[str, tuple[Any, ...]] | None:
    """The same as SQL over the columns of a row ``source``; no due date means ``now``.

    In decimals until the end: a priority times an interval may be longer than 64 bits. Without ``own`` the due date of
    the row does not count. None where the numbers of the database end at 64 bits (SQLite).
    """
    connection, spelled = connections[using], dialect(using)
    if spelled.rank is None:
        return None
    text = spelled.rank.format(_LEAST, _MOST)
    if not own:
        text = text.replace("source.due_date", "NULL")
    return text, (connection.ops.adapt_datetimefield_value(now), interval(using))


def due_by_rank(using: str) -> CombinedExpression:
    """Since when an executable job has been due, as an expression over its row, in milliseconds since 1970.

    Its rank knows better than its dates: a job that was requeued has been due since then. For priorities of no more
    than :data:`MAX_PRIORITY`; others may end in more than 64 bits.
    """
    return F("rank") + F("priority") * Value(interval(using), output_field=BigIntegerField())


def reranked(using: str, old: int, change: int) -> int:
    """The rank of a job whose priority has changed by ``change``; what it has waited counts on."""
    return max(_LEAST, min(_MOST, old - change * interval(using)))


def check_priority(priority: int) -> None:
    """Raise :class:`~jobexec.exceptions.InvalidJob` for what is no priority."""
    whole = isinstance(priority, int) and not isinstance(priority, bool)
    if not whole or not -MAX_PRIORITY <= priority <= MAX_PRIORITY:
        raise InvalidJob(f"priority: expected a number from {-MAX_PRIORITY} to {MAX_PRIORITY}, got {priority!r}.")


def interval(using: str) -> int:
    """How many milliseconds of waiting one point of priority is worth."""
    return (get_settings().engine(using).priority_ageing or _STRICT) // _MILLISECOND
