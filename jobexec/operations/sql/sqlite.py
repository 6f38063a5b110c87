"""The dialect of SQLite."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any
from uuid import UUID

from .portable import Dialect

_WAL = re.compile(r"journal_mode\s*[=(]\s*['\"]?wal\b", re.IGNORECASE)


class SQLite(Dialect):
    """SQLite: runs in this process, has one writer at a time, and has RETURNING since 3.35."""

    name = "SQLite"
    single_writer = True
    locks_by_any_index = True
    given_rows = "values"
    row_place = "rowid"
    looked_up = "CROSS JOIN {}"  # in the written order; it would rather read the whole list for each row of the table
    most_pairs = 100  # terms of a UNION
    by_index = "INDEXED BY {}"  # it knows only how many rows a value has on average
    separator = "char(31)"
    # No ``rank``: SQLite's integers have 64 bits, and a priority times an interval may be longer.

    # There are no statistics: the rows are counted, in a tenth of a second at most. None means a million or more.
    row_estimate = "SELECT nullif(count(*), 1000000) FROM (SELECT 1 FROM {table} LIMIT 1000000)"
    like_ignores_case = True
    current_time = None
    # Cut off, for SQLite rounds to milliseconds.
    time_slot = "(CAST(strftime('%%%%s', substr(%(expressions)s, 1, 19)) AS INTEGER) - %(since)d) / %(seconds)d"
    bulk_insert = "executemany"
    skip_conflicts = "ON CONFLICT DO NOTHING"

    def missing_options(self, database: Mapping[str, Any]) -> dict[str, str]:
        options, name = database["OPTIONS"], str(database["NAME"])
        missing = {}
        if str(options.get("transaction_mode")).upper() not in ("IMMEDIATE", "EXCLUSIVE"):
            missing["transaction_mode"] = "IMMEDIATE"
        in_memory = ":memory:" in name or "mode=memory" in name
        if not in_memory and not _WAL.search(str(options.get("init_command"))):
            missing["init_command"] = "PRAGMA journal_mode=WAL;"
        return missing

    def in_transaction(self, connection: Any) -> bool:
        return not self.is_closed(connection) and bool(connection.connection.in_transaction)

    def is_closed(self, connection: Any) -> bool:
        try:
            connection.connection.in_transaction  # noqa: B018
            connection.connection.total_changes  # noqa: B018
        except Exception:  # only the driver's own ProgrammingError, but of whichever driver
            return True
        return False

    def returns_rows(self, connection: Any) -> bool:
        return bool(connection.features.can_return_columns_from_insert)

    def counts_commits(self, connection: Any) -> bool:
        return not connection.is_in_memory_db()  # an in-memory database belongs to one process

    def increments(self, connection: Any) -> tuple[str, str]:
        return "excluded.{}", "ON CONFLICT ({}) DO UPDATE SET"

    def id_list(self, ids: Iterable[UUID]) -> str:
        return json.dumps([id.hex for id in ids])

    def among(self, name: str) -> str:
        return f"id IN (SELECT value FROM json_each(%({name})s))"

    def not_among(self, name: str) -> str:
        return f"id NOT IN (SELECT value FROM json_each(%({name})s))"

    def text_list(self, texts: Collection[str]) -> str:
        return json.dumps(list(texts))

    def text_among(self, column: str, mark: str) -> str:
        return f"{column} IN (SELECT value FROM json_each({mark}))"

    def texts(self, mark: str) -> str:
        return f"json_each({mark})"

    def chosen(self, select: str) -> str:
        return f"IN ({select})"

    def given(self, table: str, columns: Mapping[str, str], mark: str = "%s") -> str:
        values = (f"json_extract(value, '$[{place}]') AS {name}" for place, name in enumerate(columns))
        return f"(SELECT {', '.join(values)} FROM json_each({mark})) AS {table}"

    def seconds(self, since: str, until: str) -> str:
        # Rounded to milliseconds, because a Julian day as a float is hardly more precise.
        return f"max(0.0, round((julianday({until}) - julianday({since})) * 86400.0, 3))"

    def short_json(self, column: str, length: int) -> str:
        return f"CASE WHEN length({column}) <= {length} THEN {column} END"

    def has_json_key(self, column: str, key: str) -> str:
        return f"json_type({column}, '$.{key}') IS NOT NULL"
