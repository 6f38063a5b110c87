"""INSERT job rows without the ORM's overhead for each column.

The values written equal those of ``Model.save()`` and ``bulk_create``, column for column. Columns without a given value
get the default of their field, as a constant in the statement.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache, lru_cache, partial
from typing import Any, NamedTuple
from uuid import UUID

from django.core.serializers.json import DjangoJSONEncoder
from django.db import IntegrityError, connections, models, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from jobexec.models import AbstractJob

from .copy import copy_rows
from .dialect import dialect_of

Table = type[AbstractJob]
Row = Sequence[Any]

#: Values that drivers take unchanged. Exactly these types: a subclass of str may need another representation.
_PLAIN = ((models.CharField, str), (models.TextField, str), (models.BooleanField, bool), (models.IntegerField, int))
_HARMLESS = re.compile(r"[\w{}]*", re.ASCII)
_MAX_ROWS = 1000  # per statement
_MAX_LENGTH = 1_000_000  # characters of text per statement: servers refuse a statement of several megabytes


def parameters(
    connection: BaseDatabaseWrapper, table: type[models.Model], columns: Mapping[str, Any]
) -> dict[str, Any]:
    """Prepare column values for the driver as the model's fields do. JSON becomes a text."""
    fields = _fields(table)
    made = {}
    for name, value in columns.items():
        plain, prepare = fields[name]
        made[name] = value if value is None or type(value) is plain else prepare(value, connection)
    return made


def json_text(value: Any) -> str:
    """Encode JSON as Django stores it."""
    return json.dumps(value, cls=DjangoJSONEncoder)


def insert_row(connection: BaseDatabaseWrapper, table: type[models.Model], values: Mapping[str, Any]) -> None:
    """Insert one row; ``values`` come from :func:`parameters`."""
    statement = _statement(_ops(connection), table, tuple(values))
    try:
        spelled = dialect_of(connection)
        with spelled.prepared_cursor(connection) as cursor:
            if spelled.bulk_insert == "executemany":  # Django converts named parameters to SQLite's placeholders faster
                cursor.execute(statement.named, values)
            else:
                cursor.execute(statement.one, tuple(values.values()))
    except Exception:
        with transaction.mark_for_rollback_on_error(connection.alias):  # as Model.save() does
            raise


def insert_text(connection: BaseDatabaseWrapper, table: type[models.Model], names: tuple[str, ...]) -> str:
    """The INSERT of one row as a text, with a placeholder for each of the columns ``names``."""
    return _statement(_ops(connection), table, names).one


def without_defaults(table: type[models.Model], values: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the :func:`parameters` of a row that differ from the defaults of their fields."""
    defaults = _defaults(table)
    return {name: value for name, value in values.items() if value != defaults[name]}


def insert_missing(using: str, table: type[models.Model], rows: Sequence[Mapping[str, Any]]) -> int | None:
    """Insert those of a few rows whose unique key is free; all rows have the same columns.

    Return how many were inserted, or None on MySQL and MariaDB, which also count rows that were not inserted. Waits for
    an open transaction that has inserted one of the keys.
    """
    connection = connections[using]
    spelled, quote, names = dialect_of(connection), connection.ops.quote_name, tuple(rows[0])
    if spelled.skip_conflicts is None:
        return sum(_inserted(using, table, row) for row in rows)
    columns, marks = ", ".join(map(quote, names)), f"({', '.join(['%s'] * len(names))})"
    values = ", ".join([marks] * len(rows))
    made = [parameters(connection, table, row) for row in rows]
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {quote(table._meta.db_table)} ({columns}) VALUES {values} "
            + spelled.skip_conflicts.format(quote(names[0])),
            [row[name] for row in made for name in names],
        )
        return int(cursor.rowcount) if spelled.counts_skipped else None


def _inserted(using: str, table: type[models.Model], row: Mapping[str, Any]) -> bool:
    try:
        with transaction.atomic(using=using):
            table._base_manager.using(using).create(**row)
    except IntegrityError:
        return False
    return True


def insert_rows(
    connection: BaseDatabaseWrapper,
    table: Table,
    names: Sequence[str],
    rows: Sequence[Row],
    shared: Mapping[str, Any] | None = None,
) -> None:
    """Insert many rows, in the number of statements that suits the database; call it in a transaction.

    ``names`` are the columns of ``rows``; ``shared`` holds columns with one value for all rows. All values come from
    :func:`parameters`.
    """
    shared = shared or {}
    how = dialect_of(connection).bulk_insert
    if how == "copy":  # COPY pays off from the second row on
        copy_rows(connection, table, names, rows, {**_constants(table, (*names, *shared)), **shared})
        return
    statement, rest = _statement(_ops(connection), table, (*names, *shared)), tuple(shared.values())
    with connection.cursor() as cursor:
        if how == "executemany":  # runs in this process: a statement per row costs next to nothing
            cursor.executemany(statement.one, [(*row, *rest) for row in rows])
            return
        for chunk in _chunks(rows, _length(rest)):
            values = [value for row in chunk for value in (*row, *rest)]
            cursor.execute(statement.head + ", ".join([statement.row] * len(chunk)), values)


def _chunks(rows: Iterable[Row], besides: int) -> Iterator[list[Row]]:
    """Yield chunks that fit into a statement; ``besides`` is the text length that shared columns add to each row."""
    chunk: list[Row] = []
    length = 0
    for row in rows:
        chunk.append(row)
        length += besides + _length(row)
        if len(chunk) == _MAX_ROWS or length > _MAX_LENGTH:
            yield chunk
            chunk, length = [], 0
    if chunk:
        yield chunk


def _length(row: Row) -> int:
    return sum(len(value) for value in row if isinstance(value, str))


class _Statement(NamedTuple):
    """``one`` inserts one row, as does ``named``, whose placeholders are named after the columns.

    ``head`` followed by n comma-separated copies of ``row`` inserts n rows.
    """

    one: str
    named: str
    head: str
    row: str


def _ops(connection: Any) -> Any:
    return type(connection.ops)


@lru_cache(maxsize=256)
def _statement(ops: Any, table: type[models.Model], names: tuple[str, ...]) -> _Statement:
    quote = ops(None).quote_name  # it needs no connection, and a cache must not keep one
    constants = _constants(table, names)
    columns = ", ".join(quote(name) for name in (*names, *constants))
    head = f"INSERT INTO {quote(table._meta.db_table)} ({columns}) VALUES "
    rest = "".join(f", {_literal(value)}" for value in constants.values())
    row = f"({', '.join(['%s'] * len(names))}{rest})"
    named = f"({', '.join(f'%({name})s' for name in names)}{rest})"
    return _Statement(head + row, head + named, head, row)


def _constants(table: type[models.Model], given: Iterable[str]) -> dict[str, Any]:
    """Return the defaults of the columns that are not given, without those that are NULL."""
    left = set(given)
    return {name: value for name, value in _defaults(table).items() if value is not None and name not in left}


@cache
def _defaults(table: type[models.Model]) -> dict[str, Any]:
    """Return the field defaults as parameters, except ``id`` and ``create_time``, which differ for each row."""
    defaults = {field.name: field.get_default() for field in table._meta.concrete_fields}
    own = {name: None for name in ("id", "create_time") if name in defaults}
    return parameters(connections["default"], table, defaults | own)


def _literal(value: Any) -> str:
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int):
        return str(value)
    if not _HARMLESS.fullmatch(value):
        raise ValueError(f"Expected a default that needs no quoting, got {value!r}.")
    return f"'{value}'"


@cache
def _fields(table: type[models.Model]) -> dict[str, tuple[type | None, Callable[[Any, BaseDatabaseWrapper], Any]]]:
    """Map each field name to the type of values that need no preparation and the function that prepares the others."""
    return {field.name: (_plain(field), partial(_prepare(field), field)) for field in table._meta.concrete_fields}


def _plain(field: Any) -> type | None:
    return next((plain for kind, plain in _PLAIN if isinstance(field, kind)), None)


def _prepare(field: Any) -> Callable[[Any, Any, BaseDatabaseWrapper], Any]:
    special = {models.JSONField: _json, models.UUIDField: _uuid, models.DateTimeField: _moment}
    return special.get(type(field), _any)


def _json(field: Any, value: Any, connection: BaseDatabaseWrapper) -> str:
    return json_text(value)


def _uuid(field: Any, value: Any, connection: BaseDatabaseWrapper) -> str:
    # SQLite stores this form, and the other databases accept it.
    return str(value.hex if type(value) is UUID else field.to_python(value).hex)


def _moment(field: Any, value: Any, connection: BaseDatabaseWrapper) -> Any:
    if type(value) is datetime and value.tzinfo is not None:  # the field's preparation only concerns other values
        return connection.ops.adapt_datetimefield_value(value)
    return _any(field, value, connection)


def _any(field: Any, value: Any, connection: BaseDatabaseWrapper) -> Any:
    prepared = field.get_db_prep_save(value, connection)
    return str.__str__(prepared) if isinstance(prepared, str) else prepared  # a TextChoices member is also a str
