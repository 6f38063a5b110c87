"""The raw SQL of the same work, on the same tables, through the driver's own cursors."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any

from django.db import connections

from jobexec.handlers.function import JobFunction
from jobexec.identifiers import uuid7
from jobexec.models import Job
from jobexec.operations.locking import delete_rows

Row = Sequence[Any]


class RawConnection(AbstractContextManager["RawConnection"]):
    """A connection opened and set up by Django as for the engine, but used without Django's cursor wrappers."""

    def __init__(self, alias: str) -> None:
        self._wrapper: Any = connections[alias].copy()
        self._wrapper.connect()
        self.vendor = self._wrapper.vendor
        self.driver: Any = self._wrapper.connection
        self.cursor: Any = self.driver.cursor()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give it up."""
        self._wrapper.close()

    def fast_cursor(self) -> Any:
        """The driver's fastest: on PostgreSQL server-side binding, prepared statements and binary results."""
        if self.vendor != "postgresql":
            return self.cursor
        self.driver.prepare_threshold = 1
        return self._wrapper.Database.Cursor(self.driver)

    def execute(self, statement: str, parameters: Row = ()) -> Any:
        """Run a statement with ``%s`` for parameters on the usual cursor, which is returned."""
        self.cursor.execute(placeholders(self.vendor, statement), parameters)
        return self.cursor

    def begin(self) -> None:
        """Start a transaction; the connection is in autocommit otherwise."""
        self.cursor.execute("BEGIN IMMEDIATE" if self.vendor == "sqlite" else "BEGIN")


def placeholders(vendor: str, statement: str) -> str:
    """The statement with the driver's own placeholders instead of ``%s``."""
    return statement.replace("%s", "?") if vendor == "sqlite" else statement


class Insert:
    """The INSERT that enqueueing a job sends, and its parameters for further jobs.

    Caught on its way to the database, so that it is the same row whatever the model's columns are.
    """

    def __init__(self, handler: JobFunction[[int], None], alias: str) -> None:
        self.alias, self.vendor = alias, connections[alias].vendor
        caught: list[tuple[str, Row]] = []

        def catch(execute: Any, sql: str, params: Row, many: bool, context: Any) -> Any:
            if sql.startswith("INSERT"):
                caught.append((sql, params))
            return execute(sql, params, many, context)

        with connections[alias].execute_wrapper(catch):
            row = handler.enqueue(0)
        delete_rows(Job.objects.using(alias).filter(pk=row.pk))
        statement, self._parameters = caught[0]
        self.statement = placeholders(self.vendor, statement)
        self.columns = [field.column for field in Job._meta.concrete_fields]

    def row(self, number: int) -> list[Any]:
        """The parameters for the job with this argument, under an id of its own."""
        parameters = list(self._parameters)
        for name, value in (("id", uuid7()), ("handler_configuration", {"args": [number], "kwargs": {}})):
            field: Any = Job._meta.get_field(name)
            parameters[self.columns.index(field.column)] = field.get_db_prep_save(value, connections[self.alias])
        return parameters

    def many(self, connection: RawConnection, rows: Sequence[Row]) -> None:
        """Insert all rows in one transaction in the fastest way: COPY on PostgreSQL, executemany elsewhere."""
        if self.vendor == "postgresql":
            names = ", ".join(f'"{column}"' for column in self.columns)
            with connection.cursor.copy(f"COPY {Job._meta.db_table} ({names}) FROM STDIN") as copy:
                for row in rows:
                    copy.write_row(row)
            return
        connection.begin()
        connection.cursor.executemany(self.statement, rows)
        connection.execute("COMMIT")
