"""Types of job for which nobody comes, and how many jobs of each type wait for a worker outside. Reads only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import connections
from django.db.models import Count, Max, Min, Q, QuerySet

from jobexec.models import ExternalWorker, ExternalWorkerJob

from . import counts
from .counts import CappedCount
from .leases import time_of

#: Types that are looked at, in the order of the alphabet; each costs a statement or two.
MOST_TYPES = 100

# Each step goes to the next type by the index: not the rows are read, however many there are, but the types.
_TYPES = """WITH RECURSIVE types(name, n) AS (
    SELECT MIN({type}), 1 FROM {table}
    UNION ALL
    SELECT (SELECT MIN({type}) FROM {table} WHERE {type} > types.name), n + 1 FROM types
    WHERE types.name IS NOT NULL AND n < {most}
) SELECT name FROM types WHERE name IS NOT NULL"""


@dataclass(frozen=True, slots=True)
class TypeCounts:
    """The jobs of one type outside: those that a worker may fetch, has, or that wait for the end of a back-off.

    Of more than :data:`~.counts.COUNT_LIMIT` jobs the first so many in the order of fetching are looked at.
    """

    type: str
    available: CappedCount
    activated: CappedCount
    backing_off: CappedCount
    #: Since when the job has been available that waits longest; None if none waits.
    waiting_since: datetime | None


@dataclass(frozen=True, slots=True)
class TypeWithoutWorker:
    """Jobs of ``type`` have waited since ``waiting_since``, and no worker has asked for it meanwhile.

    ``last_asked`` is when one did, as far as it is remembered.
    """

    type: str
    waiting_since: datetime
    last_asked: datetime | None


def external_types(using: str, most: int = MOST_TYPES) -> list[str]:
    """The types of which there are jobs outside, at most so many of them."""
    connection = connections[using]
    quote, opts = connection.ops.quote_name, ExternalWorkerJob._meta
    column = quote(str(opts.get_field("handler_type").column))
    with connection.cursor() as cursor:
        cursor.execute(_TYPES.format(type=column, table=quote(opts.db_table), most=most))
        return [str(name) for (name,) in cursor.fetchall()]


def external_counts(using: str) -> list[TypeCounts]:
    """How the jobs of each type are, in one bounded statement for each."""
    now = time_of(using)
    return [_counted(using, type, now) for type in external_types(using)]


def _counted(using: str, type: str, now: datetime) -> TypeCounts:
    free, held = Q(available_at__lte=now), Q(available_at__gt=now, lock_expiration_time__gt=now)
    found = _first_of(using, type).aggregate(
        all=Count("pk"),
        available=Count("pk", filter=free),
        activated=Count("pk", filter=held),
        backing_off=Count("pk", filter=~free & ~held),
        since=Min("available_at", filter=free),
    )
    more = found["all"] > counts.COUNT_LIMIT
    capped = {name: CappedCount.upto(found[name], more) for name in ("available", "activated", "backing_off")}
    return TypeCounts(type, **capped, waiting_since=found["since"])


def _first_of(using: str, type: str) -> QuerySet[ExternalWorkerJob]:
    rows = ExternalWorkerJob.objects.using(using).filter(handler_type=type)
    return rows.order_by("rank", "available_at")[: counts.COUNT_LIMIT + 1]


def types_without_worker(using: str, after: timedelta) -> list[TypeWithoutWorker]:
    """The types of which a job has been available for longer than ``after``, and for which no worker has come since.

    A worker is whoever has asked a gateway for the type, whatever tenants it wants, or holds a job of it: those who
    call the operations themselves are seen by nothing else.
    """
    now, types = time_of(using), external_types(using)
    asked = _last_asked(using, types)
    candidates = (type for type in types if not _lately(asked.get(type), now - after))
    return list(_unserved((_counted(using, type, now) for type in candidates), asked, now - after))


def without_worker_among(using: str, found: Sequence[TypeCounts], after: timedelta) -> list[TypeWithoutWorker]:
    """The same of what :func:`external_counts` has found, in one statement more."""
    return list(_unserved(found, _last_asked(using, [each.type for each in found]), time_of(using) - after))


def _unserved(
    found: Iterable[TypeCounts], asked: Mapping[str, datetime], since: datetime
) -> Iterator[TypeWithoutWorker]:
    for each in found:
        waits = each.waiting_since is not None and each.waiting_since <= since
        if waits and not each.activated and not _lately(asked.get(each.type), since):
            assert each.waiting_since is not None
            yield TypeWithoutWorker(each.type, each.waiting_since, asked.get(each.type))


def _lately(moment: datetime | None, since: datetime) -> bool:
    return moment is not None and moment > since


def _last_asked(using: str, types: list[str]) -> dict[str, datetime]:
    rows: Any = ExternalWorker.objects.using(using).filter(type__in=types).values("type").order_by("type")
    return {row["type"]: row["last"] for row in rows.annotate(last=Max("last_seen"))}
