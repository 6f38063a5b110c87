"""INSERT ... SELECT: create rows of one table from rows of another, inside the database."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias
from uuid import UUID

from django.db import connections, models

from jobexec.models import Job

from .dialect import dialect_of

Table: TypeAlias = type[models.Model]
Own: TypeAlias = Mapping[str, list[Any]]
Form: TypeAlias = Callable[[Any, Table, list[UUID], Own], tuple[str, str, list[Any]]]


@dataclass(frozen=True, slots=True)
class Sql:
    """The value of a column, as an SQL expression over the columns of the row ``source``."""

    text: str
    parameters: tuple[Any, ...] = ()


def is_possible(using: str) -> bool:
    """Whether this database supports the statements below."""
    return _form(using) is not None


def insert_from(
    using: str,
    source: Table,
    to: Table,
    ids: Collection[UUID],
    columns: Mapping[str, Any],
    each: Mapping[UUID, Mapping[str, Any]] | None = None,
    update: Sequence[str] = (),
) -> None:
    """Insert into ``to`` one row for each of these rows of ``source``, in one statement if the database allows it.

    ``columns`` maps column names to a value or :class:`Sql`; ``each`` has further values by id. If a row with the same
    id exists, its columns in ``update`` are updated instead; without ``update`` this is an error.
    """
    rows = list(each or ids)
    own = len(each[rows[0]]) if each else 0
    most = connections[using].features.max_query_params
    size = max(1, (most - len(columns)) // (1 + own)) if most else len(rows)
    for start in range(0, len(rows), size):
        page = rows[start : start + size]
        _insert_from(using, source, to, page, columns, {pk: each[pk] for pk in page} if each else {}, update)


def _insert_from(
    using: str,
    source: Table,
    to: Table,
    ids: list[UUID],
    columns: Mapping[str, Any],
    each: Mapping[UUID, Mapping[str, Any]],
    update: Sequence[str],
) -> None:
    form = _form(using)
    assert form is not None, "ask is_possible() first"
    shared, own = _split(each)
    values = {name: value for name, value in {**columns, **shared}.items() if name not in own}
    connection = connections[using]
    quote = connection.ops.quote_name
    expressions = [_expression(connection, to, name, value) for name, value in values.items()]
    texts = [*(text for text, _ in expressions), *(f"given.{quote(name)}" for name in own)]
    given, origin, given_parameters = form(connection, to, ids, own)
    names = ", ".join(map(quote, [*values, *own]))
    statement = f"INSERT INTO {to._meta.db_table} ({names}) {given} SELECT {', '.join(texts)} FROM {origin}"
    statement += _or_update(connection, update, filtered=not own)
    parameters = [parameter for _, parameters in expressions for parameter in parameters]
    ordered = [*given_parameters, *parameters] if given else [*parameters, *given_parameters]
    with connection.cursor() as cursor:
        cursor.execute(statement.format(source=source._meta.db_table), ordered)


def _or_update(connection: Any, columns: Sequence[str], *, filtered: bool) -> str:
    """Return the end of an upsert; without a WHERE before it (``filtered``), SQLite takes its ON for a join's."""
    increments = dialect_of(connection).increments(connection)
    if not columns or increments is None:
        return ""
    new, conflict = increments
    quoted = [connection.ops.quote_name(name) for name in columns]
    changes = ", ".join(f"{name} = {new.format(name)}" for name in quoted)
    return f"{'' if filtered else ' WHERE true'} {conflict.format('id')} {changes}"


def _split(each: Mapping[UUID, Mapping[str, Any]]) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    """Split the columns into those equal for all rows and the others: mass failures have most values in common."""
    rows = list(each.values())
    shared: dict[str, Any] = {}
    own: dict[str, list[Any]] = {}
    for name in rows[0] if rows else ():
        values = [row[name] for row in rows]
        first = values[0]
        if all(value == first for value in values):
            shared[name] = first
        else:
            own[name] = values
    return shared, own


def _expression(connection: Any, to: Table, name: str, value: Any) -> tuple[str, tuple[Any, ...]]:
    if isinstance(value, Sql):
        return value.text, value.parameters
    if value is None:
        return "NULL", ()
    return "%s", (_field(to, name).get_db_prep_save(value, connection),)


def _postgresql(connection: Any, to: Table, ids: list[UUID], own: Own) -> tuple[str, str, list[Any]]:
    if not own:
        return "", "{source} AS source WHERE source.id = ANY(%s)", [ids]
    types = ["uuid", *(_field(to, name).db_type(connection) for name in own)]
    arrays = ", ".join(f"%s::{type}[]" for type in types)
    given = f"WITH given({_names(connection, own)}) AS (SELECT * FROM unnest({arrays}))"
    # OFFSET 0 forces a lookup per row: PostgreSQL would read all rows of a table that was empty at its last ANALYZE.
    origin = "given CROSS JOIN LATERAL (SELECT * FROM {source} AS row WHERE row.id = given.job OFFSET 0) AS source"
    return given, origin, [ids, *_prepared(connection, to, own)]


def _mariadb(connection: Any, to: Table, ids: list[UUID], own: Own) -> tuple[str, str, list[Any]]:
    keys = [Job._meta.pk.get_db_prep_value(id, connection) for id in ids]
    key = "CAST(%s AS UUID)" if connection.features.has_native_uuid_field else "%s"
    row = f"({', '.join([key, *['%s'] * len(own)])})"
    given = f"WITH given({_names(connection, own)}) AS (VALUES {', '.join([row] * len(keys))})"
    values = [value for line in zip(keys, *_prepared(connection, to, own), strict=True) for value in line]
    return given, _joined(connection), values


def _joined(connection: Any) -> str:
    return f"given {dialect_of(connection).looked_up.format('{source} AS source')} ON source.id = given.job"


def _sqlite(connection: Any, to: Table, ids: list[UUID], own: Own) -> tuple[str, str, list[Any]]:
    keys = [id.hex for id in ids]
    if not own:
        return "", f"{{source}} AS source WHERE source.id IN ({', '.join(['%s'] * len(keys))})", keys
    row = f"({', '.join(['%s'] * (1 + len(own)))})"
    given = f"WITH given({_names(connection, own)}) AS (VALUES {', '.join([row] * len(keys))})"
    values = [value for line in zip(keys, *_prepared(connection, to, own), strict=True) for value in line]
    return given, _joined(connection), values


def _names(connection: Any, own: Own) -> str:
    return ", ".join(["job", *map(connection.ops.quote_name, own)])


def _prepared(connection: Any, to: Table, own: Own) -> list[list[Any]]:
    return [
        [None if value is None else _field(to, name).get_db_prep_save(value, connection) for value in values]
        for name, values in own.items()
    ]


def _field(table: Table, name: str) -> models.Field[Any, Any]:
    return table._meta.get_field(name)  # type: ignore[return-value]


def _form(using: str) -> Form | None:
    """Return the function that writes the row ids and their own values for this database, or None.

    It returns the beginning of the statement, what follows its FROM, and the parameters of both. MySQL would need yet
    another syntax and has none.
    """
    connection: Any = connections[using]
    form = dialect_of(connection).given_rows
    if form == "hinted values" and not connection.mysql_is_mariadb:
        return None
    return _FORMS[form] if form else None


_FORMS: dict[str, Form] = {"arrays": _postgresql, "values": _sqlite, "hinted values": _mariadb}
