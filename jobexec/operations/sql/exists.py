"""Whether querysets have rows, looked up in one statement."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import EmptyResultSet
from django.db import connections
from django.db.models import QuerySet


def exist(using: str, *querysets: QuerySet[Any, Any]) -> list[bool]:
    """Check in one statement whether each queryset has a row: a row that moves is in one of its tables."""
    found: dict[int, tuple[str, Any]] = {}
    for number, rows in enumerate(querysets):
        try:
            found[number] = rows.query.exists().get_compiler(using).as_sql()
        except EmptyResultSet:
            continue
    if not found:
        return [False] * len(querysets)
    with connections[using].cursor() as cursor:
        cursor.execute(
            f"SELECT {', '.join(f'EXISTS({sql})' for sql, _ in found.values())}",
            [each for _, values in found.values() for each in values],
        )
        answers = dict(zip(found, cursor.fetchone(), strict=True))
    return [bool(answers.get(number)) for number in range(len(querysets))]
