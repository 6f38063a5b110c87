"""Equal parts of time, counted inside the database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import Expression, F, Func, IntegerField

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = timedelta(seconds=1)


def whole_second(moment: datetime) -> datetime:
    """The second that the moment is in, in UTC."""
    return moment.astimezone(UTC).replace(microsecond=0)


def floor(moment: datetime, length: timedelta) -> datetime:
    """The beginning of the part of time that the moment is in; parts of this length begin in 1970."""
    return _EPOCH + (moment - _EPOCH) // length * length


class Slot(Func):
    """In which part of ``seconds`` seconds a time is, counted from 0 for the part that begins at ``since``."""

    output_field = IntegerField()

    def __init__(self, time: Expression | F, since: datetime, seconds: int) -> None:
        # Inlined, as both are numbers: PostgreSQL takes expressions with parameters in SELECT and GROUP BY for two.
        super().__init__(time, since=(since - _EPOCH) // _SECOND, seconds=seconds)

    def as_sql(self, compiler: Any, connection: Any, *arguments: Any, **context: Any) -> Any:
        return super().as_sql(compiler, connection, None, _TEMPLATES[connection.vendor])


_TEMPLATES = {
    "postgresql": "floor((extract(epoch FROM %(expressions)s) - %(since)d) / %(seconds)d)::integer",
    "mysql": "(timestampdiff(SECOND, '1970-01-01', %(expressions)s) - %(since)d) DIV %(seconds)d",
    # Cut off, for SQLite rounds to milliseconds.
    "sqlite": "(CAST(strftime('%%%%s', substr(%(expressions)s, 1, 19)) AS INTEGER) - %(since)d) / %(seconds)d",
}
