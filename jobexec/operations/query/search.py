"""Jobs of several tables in a common order, without unbounded sorting or reading."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

from django.db.models import QuerySet

from jobexec.exceptions import InvalidQuery
from jobexec.models import AbstractJob

from ..sql.locks import by_code_point

Jobs: TypeAlias = QuerySet[Any]

ORDERS: tuple[str, ...] = (
    "id",
    "due_date",
    "priority",
    "retries",
    "attempts",
    "handler_type",
    "category",
    "process_instance_id",
    "process_definition_key",
    "tenant_id",
)
"""The columns by which jobs can be ordered; a leading minus means descending. ``id`` orders by age."""

_PAGE = 500


def find(tables: Sequence[Jobs], limit: int, order: str, defer: Sequence[str] = ()) -> list[AbstractJob]:
    """The first ``limit`` jobs of these querysets, each over one job table, in one of :data:`ORDERS`.

    Jobs without a value in the column come last. Only the order by id has an index: for others the database reads all
    matching jobs. The columns in ``defer`` are not loaded. Raises :class:`~jobexec.exceptions.InvalidQuery`.
    """
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 0:
        raise InvalidQuery(f"limit: expected a number of at least 0, got {limit!r}.")
    column, down = _order(order)
    key = _key(column, down)
    if column == "id":
        direction = "-pk" if down else "pk"
        pages = [rows.defer(*defer).order_by(direction)[:limit] for rows in tables]
    else:
        pages = [_sorted(rows, column, down)[:limit].defer(*defer) for rows in tables]
    return sorted((row for page in pages for row in page), key=key)[:limit]


def walk(tables: Sequence[Jobs], defer: Sequence[str] = ()) -> Iterator[AbstractJob]:
    """All jobs of these querysets, oldest first, in pages. A job that moves may appear twice or not at all."""
    return heapq.merge(*(_pages(rows.defer(*defer)) for rows in tables), key=lambda row: row.pk)


def _pages(rows: Jobs) -> Iterator[AbstractJob]:
    page = list(rows.order_by("pk")[:_PAGE])
    while page:
        yield from page
        if len(page) < _PAGE:
            break
        page = list(rows.filter(pk__gt=page[-1].pk).order_by("pk")[:_PAGE])


def _order(order: str) -> tuple[str, bool]:
    column = order.removeprefix("-")
    if column not in ORDERS:
        raise InvalidQuery(f"order: expected one of {', '.join(ORDERS)}, with or without a minus; got {order!r}.")
    return column, order != column


def _sorted(rows: Jobs, column: str, down: bool) -> Jobs:
    by = by_code_point(rows, column)
    return rows.order_by(by.desc(nulls_last=True) if down else by.asc(nulls_last=True), "pk")


class _Down:
    """Reverse the order of any value, also of non-numbers."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __lt__(self, other: _Down) -> bool:
        return bool(other.value < self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Down) and bool(self.value == other.value)


def _key(column: str, down: bool) -> Callable[[Any], Any]:
    def key(row: Any) -> Any:
        value = getattr(row, column)
        return value is None, None if value is None else (_Down(value) if down else value), row.pk.int

    return key
