"""What those who wait for external jobs want to know of many types at once."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db import connections
from django.db.models import Min, Q, QuerySet

from jobexec import clock
from jobexec.models import ExternalWorkerJob

_PAGE = 500  # parameters of one statement
_TYPES = 100


def available_types(using: str, types: Collection[str]) -> set[str]:
    """Of which of these types there seem to be jobs that a worker may fetch now.

    Seem: a job can still be kept back by the process instance that it belongs to, or be for others. One statement for
    each 500 types, each a look at the index.
    """
    named, found = sorted(types), set[str]()
    now = Q(available_at=None) | Q(available_at__lte=clock.now(using))
    for start in range(0, len(named), _PAGE):
        jobs = ExternalWorkerJob.objects.using(using).filter(now, handler_type__in=named[start : start + _PAGE])
        found.update(jobs.order_by().values_list("handler_type", flat=True).distinct())
    return found


def next_times(using: str, since: Mapping[str, datetime]) -> dict[str, datetime]:
    """When the next job of each of these types becomes available of those that were not yet at the moment in ``since``.

    That may be over meanwhile. There is no entry for none. One look at the index for each: to group them would read all
    jobs that are held.
    """
    found: dict[str, datetime] = {}
    for type, moment in since.items():
        jobs = ExternalWorkerJob.objects.using(using).filter(handler_type=type, available_at__gt=moment)
        next = jobs.aggregate(next=Min("available_at"))["next"]
        if next is not None:
            found[type] = next
    return found


def first_ranks(using: str, types: Sequence[str]) -> dict[str, list[int]]:
    """The ranks of the first job of each type that is new, and of the one that is longest available again.

    One statement for each 100 types, with two looks at the index for each type.
    """
    found: dict[str, list[int]] = {}
    for start in range(0, len(types), _TYPES):
        page = types[start : start + _TYPES]
        ranks = iter(_values(using, [head for type in page for head in _heads(using, type)]))
        for type, pair in zip(page, zip(ranks, ranks, strict=True), strict=True):
            found[type] = [rank for rank in pair if rank is not None]
    return found


def _heads(using: str, type: str) -> list[QuerySet[ExternalWorkerJob, int]]:
    waiting = ExternalWorkerJob.objects.using(using).filter(handler_type=type)
    both = waiting.filter(available_at=None), waiting.filter(available_at__lte=clock.now(using))
    return [rows.order_by("available_at", "rank").values_list("rank", flat=True)[:1] for rows in both]


def _values(using: str, queries: Sequence[QuerySet[ExternalWorkerJob, int]]) -> Sequence[Any]:
    """The one value of each of these queries, None where there is none."""
    parts = [query.query.get_compiler(using).as_sql() for query in queries]
    statement = f"SELECT {', '.join(f'({sql})' for sql, _ in parts)}"
    with connections[using].cursor() as cursor:
        cursor.execute(statement, [value for _, values in parts for value in values])
        return cursor.fetchone() or ()
