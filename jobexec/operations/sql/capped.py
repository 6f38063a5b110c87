"""Counts of rows by value that end early, for many values in one statement."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice

from django.db import connections
from django.db.models import Model, Q

#: SQLite accepts no more than 500 parts of one compound SELECT.
_PARTS = 100


def count_each(
    using: str, table: type[Model], column: str, most: Mapping[str, int], *, among: Q | None = None, latest: str = ""
) -> dict[str, int]:
    """The number of rows with each of these values in an indexed column, each counted up to its limit.

    ``among`` is a condition on other columns of the index. ``latest`` is the last column of an index that must serve
    the counts, whatever the database expects: the rows of the greatest values are counted.

    A GROUP BY would read all rows of a value that has a million of them.
    """
    counts: dict[str, int] = {}
    values = iter(most.items())
    while page := list(islice(values, _PARTS)):
        counts |= {page[place][0]: count for place, count in _counted(using, table, column, page, among, latest)}
    return counts


def _counted(
    using: str, table: type[Model], column: str, page: list[tuple[str, int]], among: Q | None, latest: str
) -> Iterator[tuple[int, int]]:
    connection = connections[using]
    name, rows = connection.ops.quote_name(column), connection.ops.quote_name(table._meta.db_table)
    query, more, params = table._base_manager.using(using).all().query, "", []
    if among is not None:
        query.add_q(among)
        condition, params = query.get_compiler(using).compile(query.where)
        more = f" AND {condition}"
    if latest:
        more += f" ORDER BY {connection.ops.quote_name(latest)} DESC"
    parts = (
        f"SELECT {place}, COUNT(*) FROM (SELECT 1 FROM {rows} WHERE {name} = %s{more} LIMIT {int(limit)}) counted"
        for place, (_, limit) in enumerate(page)
    )
    with connection.cursor() as cursor:
        cursor.execute(" UNION ALL ".join(parts), [each for value, _ in page for each in (value, *params)])
        yield from cursor.fetchall()
