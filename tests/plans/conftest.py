"""Tables as new ones: what an earlier test left in them on the disk would change the plans."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connections

#: Bytes of a table with its indexes, empty but for a few rows.
_SMALL = 1_000_000
_TABLES = "SELECT relname FROM pg_class WHERE relkind = 'r' AND relname LIKE 'jobexec\\_%'"


@pytest.fixture(autouse=True)
def no_bloat(request: Any) -> Iterator[None]:
    """On PostgreSQL, indexes keep the pages of rows that are gone, and the planner rather reads a small table whole."""
    alias = request.getfixturevalue("alias") if "alias" in request.fixturenames else None
    if alias and connections[alias].vendor == "postgresql":
        request.getfixturevalue("transactional_db")
        with connections[alias].cursor() as cursor:
            cursor.execute(f"{_TABLES} AND pg_total_relation_size(oid) > {_SMALL}")
            for (table,) in cursor.fetchall():
                cursor.execute(f"VACUUM FULL {table}")
            # The tests say themselves when statistics are made.
            cursor.execute(_TABLES + " AND reloptions IS NULL")
            for (table,) in cursor.fetchall():
                cursor.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = false)")
    yield
