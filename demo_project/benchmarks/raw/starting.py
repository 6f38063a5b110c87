"""The raw SQL of the start of a process instance: the rows that a start writes, in one transaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from uuid import UUID

from django.db import connections

from jobexec.identifiers import uuid7
from jobexec.models import Job
from jobexec.processes.models import ActivityInstance, EventSubscription, Execution, ProcessInstance, Variable

from ..measure import BenchError, Sample, Stopwatch
from .sql import RawConnection, placeholders

#: Each table of what a start writes, and the column that names the instance.
_TABLES: Mapping[type[Any], str] = {
    ProcessInstance: "id",
    Execution: "root_id",
    Variable: "root_id",
    EventSubscription: "root_id",
    ActivityInstance: "instance_id",
    Job: "root_process_instance_id",
}
#: One transaction: statements with their parameters.
Transaction = Sequence[tuple[str, list[Any]]]


class Start:
    """The rows of an instance that ours has started, and the same rows of further instances, under ids of their own.

    PostgreSQL writes them by one prepared statement, which is a transaction; elsewhere it is one INSERT for each table.
    There is no look-up of the definition, no NOTIFY, and no Python between the statements.
    """

    def __init__(self, alias: str, instance: UUID) -> None:
        self._connection: Any = connections[alias]
        self._tables = [(table, rows) for table, rows in _rows_of(alias, instance) if rows]
        self._ids = [row["id"] for _, rows in self._tables for row in rows]
        self._statements = [self._insert(table, len(rows)) for table, rows in self._tables]
        if self._connection.vendor == "postgresql":
            *parts, last = self._statements
            named = ", ".join(f"part{number} AS ({part})" for number, part in enumerate(parts))
            self._statements = [f"WITH {named} {last}"]

    def _insert(self, table: type[Any], count: int) -> str:
        quote, fields = self._connection.ops.quote_name, table._meta.concrete_fields
        row = f"({', '.join(['%s'] * len(fields))})"
        names = ", ".join(quote(field.column) for field in fields)
        statement = f"INSERT INTO {quote(table._meta.db_table)} ({names}) VALUES {', '.join([row] * count)}"
        return placeholders(self._connection.vendor, statement)

    def counts(self) -> Counter[type[Any]]:
        """How many rows a start writes, by table."""
        return Counter({table: len(rows) for table, rows in self._tables})

    def again(self, key: int) -> Transaction:
        """The transaction of one more instance. Its key must be new."""
        ids = {old: uuid7() for old in self._ids}
        values = [list(self._values(table, rows, ids, key)) for table, rows in self._tables]
        if len(self._statements) == 1:
            return [(self._statements[0], [value for each in values for value in each])]
        return list(zip(self._statements, values, strict=True))

    def _values(
        self, table: type[Any], rows: Sequence[Mapping[str, Any]], ids: Mapping[UUID, UUID], key: int
    ) -> Iterator[Any]:
        for row in rows:
            for field in table._meta.concrete_fields:
                is_key = table is ProcessInstance and field.attname == "key"
                value = key if is_key else _renamed(row[field.attname], ids)
                yield field.get_db_prep_save(value, self._connection)


def _rows_of(alias: str, instance: UUID) -> Iterator[tuple[type[Any], list[dict[str, Any]]]]:
    for table, column in _TABLES.items():
        rows = table._base_manager.using(alias).filter(**{column: instance})
        yield table, list(rows.order_by("pk").values())


def _renamed(value: Any, ids: Mapping[UUID, UUID]) -> Any:
    """The value with other ids, wherever they are in it."""
    if isinstance(value, UUID):
        return ids.get(value, value)
    if isinstance(value, dict):
        return {name: _renamed(each, ids) for name, each in value.items()}
    if isinstance(value, list):
        return [_renamed(each, ids) for each in value]
    if isinstance(value, str):
        for old, new in ids.items():
            value = value.replace(str(old), str(new))
    return value


def start_all(alias: str, transactions: Sequence[Transaction]) -> Sample:
    """Execute them one after the other on one connection."""
    with RawConnection(alias) as connection:
        cursor = connection.fast_cursor()
        with Stopwatch(alias) as watch:
            for statements in transactions:
                run(connection, cursor, statements)
        return watch.sample(len(transactions))


def run(connection: RawConnection, cursor: Any, statements: Transaction) -> None:
    """One transaction; a single statement commits by itself."""
    if len(statements) == 1:
        cursor.execute(*statements[0])
        return
    connection.begin()
    for statement, values in statements:
        cursor.execute(statement, values)
    connection.execute("COMMIT")


def check(alias: str, key: str, wanted: Mapping[type[Any], int]) -> None:
    """Raise BenchError unless so many rows of the definitions with this key are in each table."""
    columns = {ProcessInstance: "definition_key", Job: "process_definition_key"}
    instances = list(ProcessInstance.objects.using(alias).filter(definition_key=key).values_list("pk", flat=True))
    for table in _TABLES:
        rows = table._base_manager.using(alias)
        found = rows.filter(**{columns[table]: key} if table in columns else {_TABLES[table] + "__in": instances})
        if found.count() != wanted.get(table, 0):
            raise BenchError(
                f"Raw SQL: {found.count()} rows of {table._meta.db_table}, {wanted.get(table, 0)} were to be written."
            )
