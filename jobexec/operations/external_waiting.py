"""What those who wait for external jobs want to know of many types at once."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from django.db.models import Min

from jobexec import clock
from jobexec.models import ExternalWorkerJob

_PAGE = 500  # parameters of one statement


def available_types(using: str, types: Collection[str]) -> set[str]:
    """Of which of these types there seem to be jobs that a worker may fetch now.

    Seem: a job can still be kept back by the process instance that it belongs to, or be for others. One statement for
    each 500 types, each a look at the index.
    """
    found: set[str] = set()
    for page in _pages(types):
        jobs = ExternalWorkerJob.objects.using(using).filter(handler_type__in=page, available_at__lte=clock.now(using))
        found.update(jobs.order_by().values_list("handler_type", flat=True).distinct())
    return found


def next_times(using: str, types: Collection[str]) -> dict[str, datetime]:
    """When the next job of each of these types that is held or backs off will be available; no entry for none."""
    found: dict[str, datetime] = {}
    for page in _pages(types):
        jobs = ExternalWorkerJob.objects.using(using).filter(handler_type__in=page, available_at__gt=clock.now(using))
        found.update(jobs.order_by().values_list("handler_type").annotate(Min("available_at")))
    return found


def _pages(types: Collection[str]) -> list[list[str]]:
    named = sorted(types)
    return [named[start : start + _PAGE] for start in range(0, len(named), _PAGE)]
