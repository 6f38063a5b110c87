"""Moves inside the database: rows go from table to table without being read, built and sent again.

The fast form of :func:`~jobexec.operations.move.move_all`, which defines what a move means and serves the databases
that cannot do this. For rows that the caller has locked, and knows to be as it decided about them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import connections, models

from jobexec import clock
from jobexec.models import SHARED_COLUMNS, AbstractJob, Job

from .locking import delete_rows
from .ranking import rank_sql


@dataclass(frozen=True, slots=True)
class Sql:
    """What a column gets, as SQL over the columns of ``source``, the row that it comes from."""

    text: str
    parameters: tuple[Any, ...] = ()


def is_possible(using: str) -> bool:
    """Whether this database takes the statements below."""
    return connections[using].vendor == "postgresql"


def transfer(
    using: str,
    source: type[AbstractJob],
    to: type[AbstractJob],
    ids: Collection[UUID],
    changes: Mapping[str, Any] | None = None,
    each: Mapping[UUID, Mapping[str, Any]] | None = None,
) -> None:
    """Move these rows, which the caller has locked, in two statements; with what :func:`move_all` changes.

    ``changes`` are columns of all of them, ``each`` has further ones by id: the same columns for every row.
    """
    if not ids:
        return
    columns: dict[str, Any] = {name: Sql(f"source.{name}") for name in SHARED_COLUMNS}
    columns |= {"lock_owner": None, "lock_expiration_time": None, "start_time": None}
    columns |= {"revision": Sql("source.revision + 1"), **(changes or {})}
    if to is Job:
        columns["rank"] = Sql(*rank_sql(using, clock.now(using)))
    insert_from(using, source, to, ids, columns, each)
    delete_rows(source._base_manager.using(using).filter(pk__in=ids))


def insert_from(
    using: str,
    source: type[models.Model],
    to: type[models.Model],
    ids: Collection[UUID],
    columns: Mapping[str, Any],
    each: Mapping[UUID, Mapping[str, Any]] | None = None,
) -> None:
    """INSERT INTO ``to`` one row for each of these rows of ``source``, in one statement.

    ``columns`` says what the columns get: a value, or :class:`Sql`; ``each`` has further values by id.
    """
    shared, own = _split(each or {})
    values = {**columns, **shared}
    names = [*(name for name in values if name not in own), *own]
    texts: list[str] = []
    parameters: list[Any] = []
    for name in names:
        if name in own:
            texts.append(f"given.{name}")
            continue
        text, values_of_it = _expression(using, to, name, values[name])
        texts.append(text)
        parameters += values_of_it
    origin, arrays = _given(using, to, list(each or ids), own)
    statement = (
        f"INSERT INTO {to._meta.db_table} ({', '.join(names)}) SELECT {', '.join(texts)}"
        f" FROM {source._meta.db_table} AS source {origin}"
    )
    with connections[using].cursor() as cursor:
        cursor.execute(statement, [*parameters, *arrays])


def _split(each: Mapping[UUID, Mapping[str, Any]]) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    """What is the same for all rows, and what is not, by column: a storm of failures has most things in common."""
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


def _expression(using: str, to: type[models.Model], name: str, value: Any) -> tuple[str, tuple[Any, ...]]:
    if isinstance(value, Sql):
        return value.text, value.parameters
    if value is None:
        return "NULL", ()
    return "%s", (_field(to, name).get_db_prep_save(value, connections[using]),)


def _given(using: str, to: type[models.Model], ids: list[UUID], own: Mapping[str, list[Any]]) -> tuple[str, list[Any]]:
    if not own:
        return "WHERE source.id = ANY(%s)", [ids]
    connection = connections[using]
    arrays, parameters = ["%s::uuid[]"], list[Any]([ids])
    for name, values in own.items():
        field = _field(to, name)
        arrays.append(f"%s::{field.db_type(connection)}[]")
        parameters.append([None if value is None else field.get_db_prep_save(value, connection) for value in values])
    names = ", ".join(["job", *own])
    return f"JOIN unnest({', '.join(arrays)}) AS given({names}) ON given.job = source.id", parameters


def _field(table: type[models.Model], name: str) -> models.Field[Any, Any]:
    return table._meta.get_field(name)  # type: ignore[return-value]
