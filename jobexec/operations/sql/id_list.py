"""Long lists in statements of our own: as one parameter, where a list of a thousand costs a thousand."""

from __future__ import annotations

import json
from collections.abc import Iterable
from uuid import UUID


def among(vendor: str, name: str) -> str:
    """The condition that ``id`` is in the list which is the parameter ``name``; on PostgreSQL and SQLite."""
    if vendor == "sqlite":
        return f"id IN (SELECT value FROM json_each(%({name})s))"
    return f"id = ANY(%({name})s::uuid[])"


def as_parameter(vendor: str, ids: Iterable[UUID]) -> str:
    """The list for :func:`among`."""
    if vendor == "sqlite":
        return json.dumps([id.hex for id in ids])
    return f"{{{','.join([id.hex for id in ids])}}}"


#: A list of pairs of texts, given as JSON, as a table; by vendor.
_PAIRS = {
    "postgresql": "(SELECT value->>0 AS {0}, value->>1 AS {1} FROM json_array_elements(%s::json)) AS {table}",
    "sqlite": "(SELECT json_extract(value, '$[0]') AS {0}, json_extract(value, '$[1]') AS {1} FROM json_each(%s))"
    " AS {table}",
    "mysql": "JSON_TABLE(%s, '$[*]' COLUMNS ({0} VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$[0]',"
    " {1} VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$[1]')) AS {table}",
}


def pairs_as_table(vendor: str, table: str, columns: tuple[str, str]) -> str | None:
    """What stands behind FROM for pairs that are the next parameter, as JSON; None if the database has no such form."""
    return _PAIRS[vendor].format(*columns, table=table) if vendor in _PAIRS else None
