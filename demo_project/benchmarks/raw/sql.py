"""The raw SQL of the same work, on the same tables, through the driver's own cursors."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any

from django.db import connections

from jobexec.handlers.function import JobFunction
from jobexec.identifiers import uuid7
from jobexec.models import Job
from jobexec.operations.sql.delete import delete_rows

Row = Sequence[Any]
_TABLE = Job._meta.db_table


class RawConnection(AbstractContextManager["RawConnection"]):
    """A connection opened and set up by Django as for the engine, but used without Django's cursor wrappers."""

    def __init__(self, alias: str) -> None:
        self._wrapper: Any = connections[alias].copy()
        with self._wrapper.wrap_database_errors:  # too many connections are an answer for people, and no traceback
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
    """The INSERT of the row that enqueueing a job writes, each column a parameter; and the rows of further jobs."""

    def __init__(self, handler: JobFunction[[int], None], alias: str) -> None:
        connection: Any = connections[alias]
        self.vendor = connection.vendor
        row = handler.enqueue(0)
        delete_rows(Job.objects.using(alias).filter(pk=row.pk))
        self._fields: Any = Job._meta.concrete_fields
        self._row = [field.get_db_prep_save(getattr(row, field.attname), connection) for field in self._fields]
        self._names = ", ".join(connection.ops.quote_name(field.column) for field in self._fields)
        values = ", ".join(["%s"] * len(self._fields))
        self.statement = placeholders(self.vendor, f"INSERT INTO {_TABLE} ({self._names}) VALUES ({values})")

    def row(self, number: int) -> list[Any]:
        """The parameters for the job with this argument, under an id of its own."""
        row = list(self._row)
        row[self._place("id")] = uuid7().hex
        row[self._place("handler_configuration")] = json.dumps({"args": [number], "kwargs": {}})
        return row

    def _place(self, name: str) -> int:
        return self._fields.index(Job._meta.get_field(name))  # type: ignore[no-any-return]

    def many(self, connection: RawConnection, rows: Sequence[Row]) -> None:
        """Insert all rows in one transaction in the fastest way: COPY on PostgreSQL, executemany elsewhere."""
        if self.vendor == "postgresql":
            with connection.cursor.copy(f"COPY {_TABLE} ({self._names}) FROM STDIN") as copy:
                for row in rows:
                    copy.write_row(row)
            return
        connection.begin()
        connection.cursor.executemany(self.statement, rows)
        connection.execute("COMMIT")
