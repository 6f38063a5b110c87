"""Time buckets of equal length, computed inside the database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import NotSupportedError
from django.db.models import Expression, F, Func, IntegerField

from .dialect import dialect_of

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = timedelta(seconds=1)


def whole_second(moment: datetime) -> datetime:
    """Truncate a moment to the second, in UTC."""
    return moment.astimezone(UTC).replace(microsecond=0)


def floor(moment: datetime, length: timedelta) -> datetime:
    """Return the start of the bucket that contains the moment; buckets of this length are counted from 1970."""
    return _EPOCH + (moment - _EPOCH) // length * length


class Slot(Func):
    """The number of the bucket of ``seconds`` seconds that contains a time; bucket 0 begins at ``since``."""

    output_field = IntegerField()

    def __init__(self, time: Expression | F, since: datetime, seconds: int) -> None:
        # Inlined, as both are numbers: PostgreSQL considers equal expressions with parameters in SELECT and GROUP BY
        # different.
        super().__init__(time, since=(since - _EPOCH) // _SECOND, seconds=seconds)

    def as_sql(self, compiler: Any, connection: Any, *arguments: Any, **context: Any) -> Any:
        template = dialect_of(connection).time_slot
        if template is None:
            raise NotSupportedError(f"{connection.vendor}: the dialect does not say how to count parts of time.")
        return super().as_sql(compiler, connection, None, template)
