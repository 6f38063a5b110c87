"""The dialect of each database; see :mod:`.portable` for what a dialect answers."""

from __future__ import annotations

import re
from typing import Any

from django.db import connections
from django.db.models import Q

from .mysql import MySQL
from .portable import Dialect
from .postgresql import PostgreSQL
from .sqlite import SQLite

_PORTABLE = Dialect()
_DIALECTS: dict[str, Dialect] = {"postgresql": PostgreSQL(), "sqlite": SQLite(), "mysql": MySQL()}


def supported() -> str:
    """Return the names of the databases that have a dialect."""
    return ", ".join(each.name for each in _DIALECTS.values())


def is_supported(connection: Any) -> bool:
    """Return whether the database behind a Django connection has a dialect, and not only the portable answers."""
    return connection.vendor in _DIALECTS


def dialect(using: str) -> Dialect:
    """Return the dialect of this database."""
    return dialect_of(connections[using])


def dialect_of(connection: Any) -> Dialect:
    """Return the dialect of the database behind a Django connection."""
    return _DIALECTS.get(connection.vendor, _PORTABLE)


def prepared_cursor(using: str) -> Any:
    """Return a cursor for a statement that is often executed; see :meth:`Dialect.prepared_cursor`."""
    connection = connections[using]
    return dialect_of(connection).prepared_cursor(connection)


def keep_plans(using: str) -> None:
    """Keep the plans of statements that this loop often executes; see :meth:`Dialect.keep_plans`."""
    connection = connections[using]
    dialect_of(connection).keep_plans(connection)


def begins_with(using: str, column: str, prefix: str) -> Q:
    """The condition that a text begins with these very characters; of plain lookups, so that a batch can store it."""
    found = Q(**{f"{column}__startswith": prefix})
    return found & _exactly(using, column, "^", prefix)


def has_part(using: str, column: str, part: str) -> Q:
    """The condition that a text contains these very characters."""
    return Q(**{f"{column}__contains": part}) & _exactly(using, column, "", part)


def _exactly(using: str, column: str, start: str, text: str) -> Q:
    if not dialect(using).like_ignores_case or text.lower() == text.upper():
        return Q()
    return Q(**{f"{column}__regex": start + re.escape(text)})
