"""Queries for waiting clients about external jobs of many types at once."""

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
    """Return those of these types that seem to have jobs available for fetching.

    Only "seem", because a job may still be blocked by its process instance, or belong to other clients. One statement
    for each 500 types, each an index lookup.
    """
    named, found = sorted(types), set[str]()
    now = Q(available_at=None) | Q(available_at__lte=clock.now(using))
    for start in range(0, len(named), _PAGE):
        jobs = ExternalWorkerJob.objects.using(using).filter(now, handler_type__in=named[start : start + _PAGE])
        found.update(jobs.order_by().values_list("handler_type", flat=True).distinct())
    return found


def next_times(using: str, since: Mapping[str, datetime]) -> dict[str, datetime]:
    """When the next job of each type becomes available, among those not yet available at the time in ``since``.

    That time may have passed meanwhile. A type without such jobs has no entry. One index lookup for each type: a GROUP
    BY would read all locked jobs.
    """
    found: dict[str, datetime] = {}
    for type, moment in since.items():
        jobs = ExternalWorkerJob.objects.using(using).filter(handler_type=type, available_at__gt=moment)
        next = jobs.aggregate(next=Min("available_at"))["next"]
        if next is not None:
            found[type] = next
    return found


def first_ranks(using: str, types: Sequence[str]) -> dict[str, list[int]]:
    """For each type, the ranks of the first new job and of the job that has been available again for the longest time.

    One statement for each 100 types, with two index lookups for each type.
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
    """The single value of each query, None if it has no row."""
    parts = [query.query.get_compiler(using).as_sql() for query in queries]
    statement = f"SELECT {', '.join(f'({sql})' for sql, _ in parts)}"
    with connections[using].cursor() as cursor:
        cursor.execute(statement, [value for _, values in parts for value in values])
        return cursor.fetchone() or ()
