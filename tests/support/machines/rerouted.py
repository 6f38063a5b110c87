"""A database of the tests reached in another way: by a pool, through PgBouncer, with other settings."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connections


@contextmanager
def rerouted(alias: str, **changes: Any) -> Iterator[None]:
    """Within the block every thread's new connections follow these keys of DATABASES, as HOST or OPTIONS.

    The threads that were started in it must have ended at its end.
    """
    database, connection = connections.settings[alias], connections[alias]
    before = dict(database)
    connection.close()
    database.update(changes)
    try:
        yield
    finally:
        connection.close()
        if getattr(connection, "pool", None) is not None:
            connection.close_pool()
        database.clear()
        database.update(before)
