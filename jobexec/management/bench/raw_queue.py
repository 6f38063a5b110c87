"""A queue in raw SQL on the table of jobs: what any executor on this table must do at the least."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db import connections

from jobexec import clock
from jobexec.models import Job
from jobexec.operations.locking import has_skip_locked

from .noop import CATEGORY
from .raw import RawConnection, Row

_OWNER = "jobbench raw"
_TABLE = Job._meta.db_table
_LOCK = "lock_owner = %s, lock_expiration_time = %s, revision = revision + 1"

_DUE = f"FROM {_TABLE} WHERE category = %s AND deployment_id = '' AND lock_owner IS NULL ORDER BY {{rank}}, id LIMIT %s"


class RawQueue:
    """Locks a page of jobs, deletes a page of jobs; each commits.

    On PostgreSQL one statement locks a page (UPDATE, SKIP LOCKED, RETURNING). Elsewhere it takes a SELECT and an
    UPDATE in one transaction, which every database understands.
    """

    def __init__(self, alias: str, connection: RawConnection, page: int) -> None:
        self._connection, self._page = connection, page
        self._cursor = connection.fast_cursor()
        operations = connections[alias].ops
        lock_time = clock.now(alias).replace(year=clock.now(alias).year + 1)
        self._lock_values = [_OWNER, operations.adapt_datetimefield_value(lock_time)]
        self._due = _DUE.format(rank=operations.quote_name("rank"))
        self._skip_locked = " FOR UPDATE SKIP LOCKED" if has_skip_locked(alias) else ""
        self._one_statement = connection.vendor == "postgresql"

    def lock(self) -> list[Row]:
        """The next page, locked: rows of id, handler type, configuration as text; empty if there is none."""
        return self._lock_in_one_statement() if self._one_statement else self._lock_in_two()

    def _lock_in_one_statement(self) -> list[Row]:
        statement = (
            f"UPDATE {_TABLE} SET {_LOCK} FROM (SELECT id AS next {self._due}{self._skip_locked}) AS page "
            "WHERE id = next RETURNING id, handler_type, handler_configuration::text"
        )
        cursor = self._cursor.execute(statement, [*self._lock_values, CATEGORY, self._page], binary=True)
        return cursor.fetchall()  # type: ignore[no-any-return]

    def _lock_in_two(self) -> list[Row]:
        connection = self._connection
        connection.begin()
        columns = "SELECT id, handler_type, handler_configuration"
        found = connection.execute(f"{columns} {self._due}{self._skip_locked}", [CATEGORY, self._page])
        rows: list[Row] = found.fetchall()
        if rows:
            ids = [row[0] for row in rows]
            statement = f"UPDATE {_TABLE} SET {_LOCK} WHERE id IN ({_marks(ids)})"
            connection.execute(statement, [*self._lock_values, *ids])
        connection.execute("COMMIT")
        return rows

    def delete(self, ids: Sequence[Any]) -> None:
        """The page is done."""
        if self._one_statement:
            self._cursor.execute(f"DELETE FROM {_TABLE} WHERE id = ANY(%s)", [ids])
        else:
            self._connection.execute(f"DELETE FROM {_TABLE} WHERE id IN ({_marks(ids)})", ids)


def _marks(values: Sequence[Any]) -> str:
    return ", ".join(["%s"] * len(values))
