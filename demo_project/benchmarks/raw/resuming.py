"""The raw loop that remembers where its last page ended, and does not walk over the dead rows before it."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db import connections

from .queue import RawQueue
from .sql import RawConnection, Row

_FIRST = -(2**63)


class ResumingQueue(RawQueue):
    """Each page begins behind the last one, which is right only where nothing comes in between.

    The rows that it returns have the rank as a fourth column.
    """

    def __init__(self, alias: str, connection: RawConnection, page: int) -> None:
        super().__init__(alias, connection, page)
        rank = connections[alias].ops.quote_name("rank")
        # MariaDB uses its index for the one spelling, PostgreSQL and SQLite for the other.
        expanded = f"({rank} > %s OR ({rank} = %s AND id > %s))"
        spelled = expanded if connection.vendor == "mysql" else f"({rank}, id) > (%s, %s)"
        self._due = self._due.replace("lock_owner IS NULL", f"lock_owner IS NULL AND {spelled}")
        self._columns = f"id, handler_type, {self._text}, {rank}"
        self._end: tuple[int, Any] = (_FIRST, str(UUID(int=0)))

    @property
    def _place(self) -> list[Any]:
        rank, last = self._end
        return [rank, rank, last] if self._connection.vendor == "mysql" else [rank, last]

    def _found(self, rows: list[Row]) -> list[Row]:
        if rows:
            self._end = max((row[3], row[0]) for row in rows)
        return rows
