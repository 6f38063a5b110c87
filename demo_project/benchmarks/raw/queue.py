"""A queue in raw SQL on the table of jobs: what any executor on this table must do at the least."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from django.db import connections

from jobexec import clock
from jobexec.models import Job
from jobexec.operations.sql.locks import has_skip_locked

from ..noop import CATEGORY
from .copy import Statement
from .sql import RawConnection, Row

_OWNER = "jobbench raw"
TABLE = Job._meta.db_table
_LOCK = "lock_owner = %s, lock_expiration_time = %s, revision = revision + 1"

_DUE = f"FROM {TABLE} WHERE category = %s AND deployment_id = '' AND lock_owner IS NULL ORDER BY {{rank}}, id LIMIT %s"


class RawQueue:
    """Locks a page of jobs, settles a page of jobs.

    :meth:`turn` does both in one transaction, which is the fastest on every database here: half as many commits. On
    PostgreSQL it is one round trip (pipeline mode), and one statement locks a page (UPDATE, SKIP LOCKED, RETURNING,
    joined by ctid); SQLite locks by UPDATE and RETURNING, too; elsewhere it takes a SELECT and an UPDATE.
    """

    def __init__(self, alias: str, connection: RawConnection, page: int) -> None:
        self.alias, self._connection, self._page = alias, connection, page
        self._is_postgresql = connection.vendor == "postgresql"
        features: Any = connections[alias].features
        self._updates_at_once = connection.vendor == "sqlite" and features.can_return_columns_from_insert  # from 3.35
        operations = connections[alias].ops
        lock_time = clock.now(alias).replace(year=clock.now(alias).year + 1)
        self._lock_values = [_OWNER, operations.adapt_datetimefield_value(lock_time)]
        self._due = _DUE.format(rank=operations.quote_name("rank"))
        self._skip_locked = " FOR UPDATE SKIP LOCKED" if has_skip_locked(alias) else ""
        self._text = "handler_configuration" + ("::text" if self._is_postgresql else "")
        self._columns = f"id, handler_type, {self._text}"
        self._locker, self._settler = connection.fast_cursor(), connection.fast_cursor()

    # The whole turn.

    def turn(self, done: Sequence[Any]) -> list[Row]:
        """Settle the jobs with these ids and lock the next page, in one transaction; see :meth:`lock`."""
        if self._is_postgresql:
            with self._connection.driver.pipeline():
                if done:
                    self._settle(done)
                return self._lock_in_postgresql()
        self._connection.begin()
        if done:
            self._settle(done)
        rows = self._lock()
        self._connection.execute("COMMIT")
        return rows

    # One after the other.

    def lock(self) -> list[Row]:
        """The next page, locked: rows of id, handler type, configuration as text; empty if there is none."""
        if self._is_postgresql:
            return self._lock_in_postgresql()
        self._connection.begin()
        rows = self._lock()
        self._connection.execute("COMMIT")
        return rows

    def settle(self, ids: Sequence[Any]) -> None:
        """The page is done."""
        if self._is_postgresql:
            with self._connection.driver.pipeline():
                self._settle(ids)
            return
        self._connection.begin()
        self._settle(ids)
        self._connection.execute("COMMIT")

    def settle_alone(self, id: Any) -> None:
        """One job is done, in a transaction of its own in which the job could have written, too."""
        self._connection.begin()
        self._settle([id])
        self._connection.execute("COMMIT")

    # Statements.

    def settling(self, ids: Sequence[Any]) -> Iterator[Statement]:
        """What settles jobs; subclasses do more than delete them."""
        condition, values = self.among(ids)
        yield f"DELETE FROM {TABLE} WHERE {condition}", values

    def among(self, ids: Sequence[Any]) -> Statement:
        """The condition that a row is one of these."""
        if self._is_postgresql:
            return "id = ANY(%s)", [list(ids)]
        return f"id IN ({_marks(ids)})", list(ids)

    @property
    def _which(self) -> list[Any]:
        return [CATEGORY, *self._place, self._page]

    @property
    def _place(self) -> list[Any]:
        """Where a page begins, for subclasses that know it."""
        return []

    def _found(self, rows: list[Row]) -> list[Row]:
        """A page was locked."""
        return rows

    def _settle(self, ids: Sequence[Any]) -> None:
        for statement, values in self.settling(ids):
            if self._is_postgresql:
                self._settler.execute(statement, values)
            else:
                self._connection.execute(statement, values)

    def _lock(self) -> list[Row]:
        return self._lock_in_sqlite() if self._updates_at_once else self._lock_in_two()

    def _lock_in_postgresql(self) -> list[Row]:
        statement = (
            f"UPDATE {TABLE} SET {_LOCK} WHERE ctid = ANY(ARRAY(SELECT ctid {self._due}{self._skip_locked})) "
            f"RETURNING {self._columns}"
        )
        cursor = self._locker.execute(statement, [*self._lock_values, *self._which], binary=True)
        return self._found(cursor.fetchall())

    def _lock_in_sqlite(self) -> list[Row]:
        statement = f"UPDATE {TABLE} SET {_LOCK} WHERE id IN (SELECT id {self._due}) RETURNING {self._columns}"
        values = [*self._lock_values, *self._which]
        return self._found(self._connection.execute(statement, values).fetchall())

    def _lock_in_two(self) -> list[Row]:
        found = self._connection.execute(f"SELECT {self._columns} {self._due}{self._skip_locked}", self._which)
        rows = self._found(found.fetchall())
        if rows:
            ids = [row[0] for row in rows]
            statement = f"UPDATE {TABLE} SET {_LOCK} WHERE id IN ({_marks(ids)})"
            self._connection.execute(statement, [*self._lock_values, *ids])
        return rows


def _marks(values: Sequence[Any]) -> str:
    return ", ".join(["%s"] * len(values))
