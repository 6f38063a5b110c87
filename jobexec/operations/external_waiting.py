"""What those who wait for external jobs want to know of many types at once."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime

from django.db.models import Min, Q

from jobexec import clock
from jobexec.models import ExternalWorkerJob

_PAGE = 500  # parameters of one statement


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
