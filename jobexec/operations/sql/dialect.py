"""Which answers a database gives; see :mod:`.portable` for the questions."""

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
    """The answers of this database."""
    return dialect_of(connections[using])


def dialect_of(connection: Any) -> Dialect:
    """The answers of the database behind one of Django's connections."""
    return _DIALECTS.get(connection.vendor, _PORTABLE)
