"""The raw SQL that writes the log of a page of jobs, by one INSERT … SELECT."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from django.db import connections

from jobexec import clock
from jobexec.models import JobLog, LogState

from .raw_queue import TABLE, RawQueue, Statement

_COPIED = (
    "job_definition_id",
    "handler_type",
    "category",
    "process_instance_id",
    "process_definition_key",
    "deployment_id",
    "tenant_id",
    "priority",
    "due_date",
    "retries",
)


def log_statement(queue: RawQueue, ids: Sequence[Any], state: str, **values: Any) -> Statement:
    """The INSERT of a log row for each of these jobs, which are still in the table; with the columns of ours."""
    operations = connections[queue.alias].ops
    condition, parameters = queue.among(ids)
    now = operations.adapt_datetimefield_value(clock.now(queue.alias))
    given = {"timestamp": now, "state": state, "node": "jobbench raw", "attempt": 1, "wait": 0.1, "duration": 0.0}
    given |= {"exception_message": "", "exception_stack": ""} | values
    names = ", ".join(operations.quote_name(name) for name in ("job_id", *_COPIED, *given))
    copied = ", ".join(operations.quote_name(name) for name in ("id", *_COPIED))
    marks = ", ".join(_mark(queue.alias, name) for name in given)
    statement = f"INSERT INTO {JobLog._meta.db_table} ({names}) SELECT {copied}, {marks} FROM {TABLE} WHERE {condition}"
    return statement, [*given.values(), *parameters]


def _mark(alias: str, name: str) -> str:
    # PostgreSQL does not conclude from the INSERT what type a parameter in its SELECT has.
    connection: Any = connections[alias]
    if connection.vendor != "postgresql":
        return "%s"
    return f"%s::{JobLog._meta.get_field(name).db_type(connection)}"


class LoggingQueue(RawQueue):
    """Writes a log row for each job that it deletes."""

    def settling(self, ids: Sequence[Any]) -> Iterator[Statement]:
        yield log_statement(self, ids, LogState.SUCCESSFUL)
        yield from super().settling(ids)
