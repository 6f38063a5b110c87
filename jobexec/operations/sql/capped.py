"""Counts of rows by value that end early, for many values in one statement."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice

from django.db import connections
from django.db.models import Model

#: SQLite accepts no more than 500 parts of one compound SELECT.
_PARTS = 100


def count_each(
    using: str, table: type[Model], column: str, most: Mapping[str, int], *, without: str = ""
) -> dict[str, int]:
    """The number of rows with each of these values in an indexed column, each counted up to its limit.

    ``without`` is a column that must be NULL, the next one of the index.

    A GROUP BY would read all rows of a value that has a million of them.
    """
    counts: dict[str, int] = {}
    values = iter(most.items())
    while page := list(islice(values, _PARTS)):
        counts |= {page[place][0]: count for place, count in _counted(using, table, column, page, without)}
    return counts


def _counted(
    using: str, table: type[Model], column: str, page: list[tuple[str, int]], without: str
) -> Iterator[tuple[int, int]]:
    connection = connections[using]
    name, rows = connection.ops.quote_name(column), connection.ops.quote_name(table._meta.db_table)
    more = f" AND {connection.ops.quote_name(without)} IS NULL" if without else ""
    parts = (
        f"SELECT {place}, COUNT(*) FROM (SELECT 1 FROM {rows} WHERE {name} = %s{more} LIMIT {int(limit)}) counted"
        for place, (_, limit) in enumerate(page)
    )
    with connection.cursor() as cursor:
        cursor.execute(" UNION ALL ".join(parts), [value for value, _ in page])
        yield from cursor.fetchall()
