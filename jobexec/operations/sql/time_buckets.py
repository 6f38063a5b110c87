"""Time buckets of equal length, computed inside the database."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import F, Func, IntegerField, QuerySet, Sum

from .dialect import dialect, dialect_of

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = timedelta(seconds=1)


def whole_second(moment: datetime) -> datetime:
    """Truncate a moment to the second, in UTC."""
    return moment.astimezone(UTC).replace(microsecond=0)


def floor(moment: datetime, length: timedelta) -> datetime:
    """Return the start of the bucket that contains the moment; buckets of this length are counted from 1970."""
    return _EPOCH + (moment - _EPOCH) // length * length


def sums_by_slot(rows: QuerySet[Any], *columns: str, since: datetime, step: timedelta) -> Iterator[tuple[Any, ...]]:
    """Yield the sums of ``value`` by these columns and by the number of the bucket that contains ``timestamp``.

    Bucket 0 begins at ``since``. A database that cannot count parts of time gives a sum for each moment instead, so a
    bucket may come several times.
    """
    seconds = int(step.total_seconds())
    if dialect(rows.db).time_slot is not None:
        slots = rows.annotate(slot=_Slot(F("timestamp"), since, seconds)).values_list(*columns, "slot")
        for *key, slot, value in slots.annotate(sum=Sum("value")).order_by():
            yield (*key, int(slot), int(value))
        return
    moments = rows.values_list(*columns, "timestamp")
    for *key, moment, value in moments.annotate(sum=Sum("value")).order_by():
        yield (*key, (moment - since) // timedelta(seconds=seconds), int(value))


class _Slot(Func):
    output_field = IntegerField()

    def __init__(self, time: F, since: datetime, seconds: int) -> None:
        # Inlined, as both are numbers: PostgreSQL considers equal expressions with parameters in SELECT and GROUP BY
        # different.
        super().__init__(time, since=(since - _EPOCH) // _SECOND, seconds=seconds)

    def as_sql(self, compiler: Any, connection: Any, *arguments: Any, **context: Any) -> Any:
        return super().as_sql(compiler, connection, None, dialect_of(connection).time_slot)
