"""The dialect of each database; see :mod:`.portable` for what a dialect answers."""

from __future__ import annotations

from typing import Any

from django.db import connections

from .mysql import MySQL
from .portable import Dialect
from .postgresql import PostgreSQL
from .sqlite import SQLite

_PORTABLE = Dialect()
_DIALECTS: dict[str, Dialect] = {"postgresql": PostgreSQL(), "sqlite": SQLite(), "mysql": MySQL()}


def dialect(using: str) -> Dialect:
    """Return the dialect of this database."""
    return dialect_of(connections[using])


def dialect_of(connection: Any) -> Dialect:
    """Return the dialect of the database behind a Django connection."""
    return _DIALECTS.get(connection.vendor, _PORTABLE)
