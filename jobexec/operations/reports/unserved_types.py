"""External job types without a worker, and the number of waiting jobs of each type. Read-only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import connections
from django.db.models import Count, Max, Min, Q, QuerySet

from jobexec.models import ExternalWorker, ExternalWorkerJob

from ..sql.server_time import time_of
from . import counts
from .counts import CappedCount

#: The maximum number of types examined, in alphabetical order; each costs a statement or two.
MOST_TYPES = 100

# Each step jumps to the next type in the index, so only the types are read, however many rows there are.
_TYPES = """WITH RECURSIVE types(name, n) AS (
    SELECT MIN({type}), 1 FROM {table}
    UNION ALL
    SELECT (SELECT MIN({type}) FROM {table} WHERE {type} > types.name), n + 1 FROM types
    WHERE types.name IS NOT NULL AND n < {most}
) SELECT name FROM types WHERE name IS NOT NULL"""


@dataclass(frozen=True, slots=True)
class TypeCounts:
    """The external jobs of a type: available, held by a worker, or waiting for the end of a back-off.

    At most :data:`~.counts.COUNT_LIMIT` are examined of the new jobs, and of those that were fetched before.
    """

    type: str
    available: CappedCount
    activated: CappedCount
    backing_off: CappedCount
    #: Since when the longest waiting job has been available; None if none waits.
    waiting_since: datetime | None


@dataclass(frozen=True, slots=True)
class TypeWithoutWorker:
    """A type whose jobs have waited since ``waiting_since``, while no worker asked for it."""

    type: str
    waiting_since: datetime


def external_types(using: str, most: int = MOST_TYPES) -> list[str]:
    """The types of external jobs, at most ``most`` of them."""
    connection = connections[using]
    quote, opts = connection.ops.quote_name, ExternalWorkerJob._meta
    column = quote(str(opts.get_field("handler_type").column))
    with connection.cursor() as cursor:
        cursor.execute(_TYPES.format(type=column, table=quote(opts.db_table), most=most))
        return [str(name) for (name,) in cursor.fetchall()]


def external_counts(using: str) -> list[TypeCounts]:
    """The counts for each type, in two bounded statements for each."""
    now = time_of(using)
    return [_counted(using, type, now) for type in external_types(using)]


def _counted(using: str, type: str, now: datetime) -> TypeCounts:
    fresh, later = _fresh(using, type), _later(using, type, now)
    more = [each["all"] > counts.COUNT_LIMIT for each in (fresh, later)]
    available, held = fresh["all"] + later["again"], later["held"]
    return TypeCounts(
        type,
        CappedCount.upto(available, any(more) or available > counts.COUNT_LIMIT),
        CappedCount.upto(held, more[1]),
        CappedCount.upto(later["all"] - later["again"] - held, more[1]),
        _first(fresh, later),
    )


def _fresh(using: str, type: str) -> dict[str, Any]:
    """The jobs of a type that have always been available, in the order in which they are fetched."""
    rows = _rows(using, type).filter(available_at=None).order_by("rank")[: counts.COUNT_LIMIT + 1]
    return rows.aggregate(all=Count("pk"), since=counts.first_due(using))


def _later(using: str, type: str, now: datetime) -> dict[str, Any]:
    """The jobs of a type with a deadline or a back-off, in the order in which these end."""
    rows = _rows(using, type).filter(available_at__isnull=False).order_by("available_at")[: counts.COUNT_LIMIT + 1]
    again, held = Q(available_at__lte=now), Q(available_at__gt=now, lock_expiration_time__gt=now)
    return rows.aggregate(
        all=Count("pk"),
        again=Count("pk", filter=again),
        held=Count("pk", filter=held),
        since=Min("available_at", filter=again),
    )


def _first(fresh: Mapping[str, Any], later: Mapping[str, Any]) -> datetime | None:
    return min((each for each in (counts.moment(fresh["since"]), later["since"]) if each), default=None)


def _rows(using: str, type: str) -> QuerySet[ExternalWorkerJob]:
    return ExternalWorkerJob.objects.using(using).filter(handler_type=type)


def types_without_worker(using: str, after: timedelta, types: Sequence[str] | None = None) -> list[TypeWithoutWorker]:
    """The types with a job available for longer than ``after``, for which no worker has asked since.

    A worker counts if it has asked a gateway for the type, for whatever tenants, or holds a job of it: the latter is
    the only trace of code that calls the operations directly. Examines all types, or only ``types``.
    """
    looked_at = external_types(using) if types is None else types
    return list(_without_worker(using, looked_at, time_of(using), after)) if looked_at else []


def _without_worker(using: str, types: Sequence[str], now: datetime, after: timedelta) -> Iterator[TypeWithoutWorker]:
    asked: Any = ExternalWorker.objects.using(using).filter(type__in=types).values("type").order_by("type")
    last = {row["type"]: row["last"] for row in asked.annotate(last=Max("last_seen"))}
    for type in types:
        if type in last and last[type] > now - after:
            continue
        later = _later(using, type, now)
        since = None if later["held"] else _first(_fresh(using, type), later)
        if since is not None and since <= now - after:
            yield TypeWithoutWorker(type, since)
