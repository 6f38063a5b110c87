"""Tables as new ones: what an earlier test left in them on the disk would change the plans."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connections

#: Bytes of a table with its indexes, empty but for a few rows.
_SMALL = 1_000_000
_TABLES = (
    "SELECT oid::regclass::text FROM pg_class WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace"
)


@pytest.fixture(autouse=True)
def no_bloat(request: Any) -> Iterator[None]:
    """On PostgreSQL, indexes keep the pages of rows that are gone, and the planner rather reads a small table whole.

    Autovacuum is off meanwhile. It would replace the statistics that the tests make, and as long as it analyses any
    table of the database, which may take a second on a busy machine, no statement removes dead entries from an index.
    """
    alias = request.getfixturevalue("alias") if "alias" in request.fixturenames else None
    if not alias or connections[alias].vendor != "postgresql":
        yield
        return
    request.getfixturevalue("transactional_db")
    with connections[alias].cursor() as cursor:
        cursor.execute(_TABLES)
        tables = [table for (table,) in cursor.fetchall()]
        for table in tables:
            cursor.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = false)")
        cursor.execute(f"{_TABLES} AND pg_total_relation_size(oid) > {_SMALL}")
        for (table,) in cursor.fetchall():
            cursor.execute(f"VACUUM FULL {table}")
    yield
    with connections[alias].cursor() as cursor:
        for table in tables:
            cursor.execute(f"ALTER TABLE {table} RESET (autovacuum_enabled)")
