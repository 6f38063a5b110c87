"""INSERT of job rows, without the ORM's work for each of their columns.

What is written is what ``Model.save()`` and ``bulk_create`` would write, column for column; only the way there is
shorter. Columns that nobody gave hold the default of their field and stand as constants in the statement.
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
from django.db import connections, models, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from jobexec.models import AbstractJob

from .copy import copy_rows
from .locks import names_conflict_target

Table = type[AbstractJob]
Row = Sequence[Any]

#: What drivers take as it is. Exactly these types: a subclass of str may have to be spelled in another way.
_PLAIN = ((models.CharField, str), (models.TextField, str), (models.BooleanField, bool), (models.IntegerField, int))
_HARMLESS = re.compile(r"[\w{}]*", re.ASCII)
_MAX_ROWS = 1000  # in one statement
_MAX_LENGTH = 1_000_000  # of the texts in one statement: servers refuse one of several megabytes


def parameters(
    connection: BaseDatabaseWrapper, table: type[models.Model], columns: Mapping[str, Any]
) -> dict[str, Any]:
    """The columns as drivers take them: what the fields of the model make of them. JSON is a text."""
    fields = _fields(table)
    made = {}
    for name, value in columns.items():
        plain, prepare = fields[name]
        made[name] = value if value is None or type(value) is plain else prepare(value, connection)
    return made


def json_text(value: Any) -> str:
    """JSON as Django stores it."""
    return json.dumps(value, cls=DjangoJSONEncoder)


def insert_row(connection: BaseDatabaseWrapper, table: Table, values: Mapping[str, Any]) -> None:
    """One INSERT; ``values`` are :func:`parameters`."""
    statement = _statement(connection.vendor, table, tuple(values))
    try:
        with connection.cursor() as cursor:
            if connection.vendor == "sqlite":  # Django's way from names to SQLite's placeholders is the shorter one
                cursor.execute(statement.named, values)
            else:
                cursor.execute(statement.one, tuple(values.values()))
    except Exception:
        with transaction.mark_for_rollback_on_error(connection.alias):  # as Model.save() does
            raise


def insert_missing(using: str, table: type[models.Model], rows: Sequence[Mapping[str, Any]]) -> int | None:
    """Insert those of a few rows whose unique key is free; all say the same columns.

    Returns how many, or None on MySQL and MariaDB, where a row that was not inserted is counted, too. Waits for a
    transaction that has inserted one of the keys and not ended.
    """
    connection = connections[using]
    quote, names = connection.ops.quote_name, tuple(rows[0])
    # On MySQL and MariaDB INSERT IGNORE would share the lock of a row that is there, and of the gap before it: two who
    # then want to write there would wait for each other. A change that changes nothing locks the row for one.
    counts = names_conflict_target(using)
    otherwise = "ON CONFLICT DO NOTHING" if counts else f"ON DUPLICATE KEY UPDATE {quote(names[0])} = {quote(names[0])}"
    columns, marks = ", ".join(map(quote, names)), f"({', '.join(['%s'] * len(names))})"
    values = ", ".join([marks] * len(rows))
    made = [parameters(connection, table, row) for row in rows]
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {quote(table._meta.db_table)} ({columns}) VALUES {values} {otherwise}",
            [row[name] for row in made for name in names],
        )
        return int(cursor.rowcount) if counts else None


def insert_rows(
    connection: BaseDatabaseWrapper,
    table: Table,
    names: Sequence[str],
    rows: Sequence[Row],
    shared: Mapping[str, Any] | None = None,
) -> None:
    """Many rows, in as few statements as the database likes best; call it in a transaction.

    ``names`` are the columns that ``rows`` bring; ``shared`` is the same for all of them. All values are
    :func:`parameters`.
    """
    shared = shared or {}
    if connection.vendor == "postgresql":  # pays from the second row on
        copy_rows(connection, table, names, rows, {**_constants(table, (*names, *shared)), **shared})
        return
    statement, rest = _statement(connection.vendor, table, (*names, *shared)), tuple(shared.values())
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":  # in this process: a statement for each row costs next to nothing
            cursor.executemany(statement.one, [(*row, *rest) for row in rows])
            return
        for chunk in _chunks(rows, _length(rest)):
            values = [value for row in chunk for value in (*row, *rest)]
            cursor.execute(statement.head + ", ".join([statement.row] * len(chunk)), values)


def _chunks(rows: Iterable[Row], besides: int) -> Iterator[list[Row]]:
    """Portions that fit into a statement; ``besides`` is the length of the texts that each row gets besides."""
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
    """``one`` inserts one row, as does ``named``, whose placeholders have the names of the columns.

    ``head`` and then ``row``, any number of times with commas between, insert as many rows.
    """

    one: str
    named: str
    head: str
    row: str


@lru_cache(maxsize=256)
def _statement(vendor: str, table: Table, names: tuple[str, ...]) -> _Statement:
    quote = "`" if vendor == "mysql" else '"'
    constants = _constants(table, names)
    columns = ", ".join(f"{quote}{name}{quote}" for name in (*names, *constants))
    head = f"INSERT INTO {quote}{table._meta.db_table}{quote} ({columns}) VALUES "
    rest = "".join(f", {_literal(value)}" for value in constants.values())
    row = f"({', '.join(['%s'] * len(names))}{rest})"
    named = f"({', '.join(f'%({name})s' for name in names)}{rest})"
    return _Statement(head + row, head + named, head, row)


def _constants(table: Table, given: Iterable[str]) -> dict[str, Any]:
    """The defaults of the columns that are not given; what is NULL need not be said."""
    left = set(given)
    return {name: value for name, value in _defaults(table).items() if value is not None and name not in left}


@cache
def _defaults(table: Table) -> dict[str, Any]:
    """As parameters; but for ``id`` and ``create_time``, which are made for each row."""
    defaults = {field.name: field.get_default() for field in table._meta.concrete_fields}
    return parameters(connections["default"], table, defaults | {"id": None, "create_time": None})


def _literal(value: Any) -> str:
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int):
        return str(value)
    if not _HARMLESS.fullmatch(value):
        raise ValueError(f"A default that would have to be quoted: {value!r}.")
    return f"'{value}'"


@cache
def _fields(table: type[models.Model]) -> dict[str, tuple[type | None, Callable[[Any, BaseDatabaseWrapper], Any]]]:
    """By name: the type of values that need no preparation, and what prepares the others."""
    return {field.name: (_plain(field), partial(_prepare(field), field)) for field in table._meta.concrete_fields}


def _plain(field: Any) -> type | None:
    return next((plain for kind, plain in _PLAIN if isinstance(field, kind)), None)


def _prepare(field: Any) -> Callable[[Any, Any, BaseDatabaseWrapper], Any]:
    special = {models.JSONField: _json, models.UUIDField: _uuid, models.DateTimeField: _moment}
    return special.get(type(field), _any)


def _json(field: Any, value: Any, connection: BaseDatabaseWrapper) -> str:
    return json_text(value)


def _uuid(field: Any, value: Any, connection: BaseDatabaseWrapper) -> str:
    # SQLite stores it so, and the others read it.
    return str(value.hex if type(value) is UUID else field.to_python(value).hex)


def _moment(field: Any, value: Any, connection: BaseDatabaseWrapper) -> Any:
    if type(value) is datetime and value.tzinfo is not None:  # all that the field does is for those that are not
        return connection.ops.adapt_datetimefield_value(value)
    return _any(field, value, connection)


def _any(field: Any, value: Any, connection: BaseDatabaseWrapper) -> Any:
    prepared = field.get_db_prep_save(value, connection)
    return str.__str__(prepared) if isinstance(prepared, str) else prepared  # a member of TextChoices is a str, too
