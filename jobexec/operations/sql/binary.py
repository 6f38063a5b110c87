"""Cursors that fetch in PostgreSQL's binary format: numbers, flags and ids need no parsing then."""

from __future__ import annotations

from typing import Any

from django.db import connections


def binary_cursor(using: str) -> Any:
    """A cursor like Django's own, with its wrappers and its log of queries; parameters are bound by the server."""
    connection: Any = connections[using]
    connection.ensure_connection()
    driver = connection.Database  # psycopg, as Django has imported it
    with connection.wrap_database_errors:
        cursor = driver.Cursor(connection.connection)
    cursor.format = driver.pq.Format.BINARY
    return connection.make_debug_cursor(cursor) if connection.queries_logged else connection.make_cursor(cursor)
