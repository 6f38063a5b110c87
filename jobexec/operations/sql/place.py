"""Which tables a thread uses: the key of whatever a process keeps in mind of their rows."""

from __future__ import annotations

from django.db import connections

from jobexec.models import KeyBlock

from .dialect import dialect_of


def place_needs_statement(using: str) -> bool:
    """Whether :func:`place` asks the database, for which an event loop must not wait."""
    connection = connections[using]
    return dialect_of(connection).prepares_sessions(connection)


def place(using: str) -> tuple[str, str, str]:
    """Identify the tables of jobexec that this thread's connection uses; equal for the same tables only.

    A backend that chooses a schema, as that of django-tenants does for each request, is asked by a statement; others
    cost none. With such a backend it raises SynchronousOnlyOperation in an event loop.
    """
    connection = connections[using]
    # Tests, and projects that switch databases under an alias, must not get what belongs to another database.
    settings = connection.settings_dict
    address = f"{settings.get('HOST')}:{settings.get('PORT')}/{settings.get('NAME')}"
    return using, address, dialect_of(connection).seen_table(connection, KeyBlock._meta.db_table)
