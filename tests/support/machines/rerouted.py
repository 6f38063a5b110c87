"""Connect to a test database in another way: with a pool, through PgBouncer, with other settings."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connections


@contextmanager
def rerouted(alias: str, **changes: Any) -> Iterator[None]:
    """Use these keys of DATABASES, such as HOST or OPTIONS, for all new connections in the block, in every thread.

    Threads started in the block must have ended at its end.
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
