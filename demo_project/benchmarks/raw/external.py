"""A worker in raw SQL on the table of external jobs: the least that fetching and finishing them takes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django.db import connections

from jobexec import clock
from jobexec.models import ExternalWorkerJob, Job
from jobexec.operations.sql.locks import has_skip_locked

from ..noop import HANDLER
from .sql import RawConnection

_JOBS, _EXTERNAL = Job._meta.db_table, ExternalWorkerJob._meta.db_table
_LOCK = (
    "lock_owner = %s, lock_expiration_time = %s, available_at = %s, attempts = attempts + 1, revision = revision + 1"
)


class RawWorker:
    """Locks jobs and reads them (SELECT … FOR UPDATE SKIP LOCKED, UPDATE), deletes one, or makes it a row of Job.

    Where one statement can do it (PostgreSQL, SQLite) it does. No process instances, no suspensions, no back-off, no
    NOTIFY; each completion is a transaction, as it is for a worker.
    """

    def __init__(self, alias: str, type: str, worker: str, on_complete: bool, sent: Mapping[str, Any]) -> None:
        self._connection = RawConnection(alias)
        vendor = self._connection.vendor
        adapt, quote = connections[alias].ops.adapt_datetimefield_value, connections[alias].ops.quote_name
        deadline = adapt(clock.now(alias) + timedelta(minutes=10))
        self._lock_values = [worker, deadline, deadline]
        self._type, self._on_complete = type, on_complete
        self._is_postgresql, self._returns = vendor == "postgresql", vendor in ("postgresql", "sqlite")
        skip = " FOR UPDATE SKIP LOCKED" if has_skip_locked(alias) else ""
        self._fresh = (
            f"FROM {_EXTERNAL} WHERE handler_type = %s AND available_at IS NULL "
            f"ORDER BY available_at, {quote('rank')}, id LIMIT %s{skip}"
        )
        self._cursor: Any = self._connection.fast_cursor()
        self._insert = _insert(alias)
        self._insert_values = [json.dumps({"args": [], "kwargs": {"variables": dict(sent)}}), adapt(clock.now(alias))]

    def activate(self, most: int) -> list[int]:
        """Lock and read so many jobs; their keys."""
        if not self._returns:
            return self._activate_in_two(most)
        ids = f"id = ANY(ARRAY(SELECT id {self._fresh}))" if self._is_postgresql else f"id IN (SELECT id {self._fresh})"
        columns = "job_key, handler_configuration, custom_headers, retries"
        statement = f"UPDATE {_EXTERNAL} SET {_LOCK} WHERE {ids} RETURNING {columns}"
        return [row[0] for row in self._run(statement, [*self._lock_values, self._type, most]).fetchall()]

    def _activate_in_two(self, most: int) -> list[int]:
        self._connection.begin()
        found = self._run(
            f"SELECT id, job_key, handler_configuration, custom_headers, retries {self._fresh}", [self._type, most]
        )
        rows = found.fetchall()
        if rows:
            marks = ", ".join(["%s"] * len(rows))
            self._run(
                f"UPDATE {_EXTERNAL} SET {_LOCK} WHERE id IN ({marks})", [*self._lock_values, *(row[0] for row in rows)]
            )
        self._connection.execute("COMMIT")
        return [row[1] for row in rows]

    def complete(self, key: int) -> None:
        """Delete it; with ``on_complete`` its row becomes one of Job."""
        delete = f"DELETE FROM {_EXTERNAL} WHERE job_key = %s"
        if not self._on_complete:
            self._run(delete, [key])
        elif self._is_postgresql:
            self._run(f"WITH gone AS ({delete} RETURNING *) {self._insert} FROM gone", [key, *self._insert_values])
        else:
            self._connection.begin()
            self._run(f"{self._insert} FROM {_EXTERNAL} WHERE job_key = %s", [*self._insert_values, key])
            self._run(delete, [key])
            self._connection.execute("COMMIT")

    def close(self) -> None:
        self._connection.close()

    def _run(self, statement: str, values: list[Any]) -> Any:
        if self._is_postgresql:
            self._cursor.execute(statement, values)
            return self._cursor
        return self._connection.execute(statement, values)


def _insert(alias: str) -> str:
    """The columns of a row of Job out of those of an external job; what is given is its configuration and its date."""
    quote = connections[alias].ops.quote_name
    cast = "::jsonb" if connections[alias].vendor == "postgresql" else ""
    date = "::timestamptz" if cast else ""
    changed = {
        "type": "'message'",
        "job_key": "NULL",
        "lock_owner": "NULL",
        "lock_expiration_time": "NULL",
        "attempts": "0",
        "handler_type": f"'{HANDLER}'",
        "job_definition_id": f"'{HANDLER}'",
        "handler_configuration": f"%s{cast}",
        "due_date": f"%s{date}",
    }
    names = sorted((str(field.column) for field in Job._meta.concrete_fields), key=_order)
    values = ", ".join(changed.get(name, quote(name)) for name in names)
    return f"INSERT INTO {_JOBS} ({', '.join(map(quote, names))}) SELECT {values}"


def _order(column: str) -> int:
    """The configuration comes before the date, as their values do."""
    return {"handler_configuration": 1, "due_date": 2}.get(column, 0)
