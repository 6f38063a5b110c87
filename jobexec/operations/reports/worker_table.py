"""The table of workers that gateways have seen: written by gateways, read by operators and the alert."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db.models import Count, Sum

from jobexec.models import ExternalWorker, ExternalWorkerJob

from ..sql.delete import delete_rows
from ..sql.locks import atomic, names_conflict_target
from ..sql.server_time import time_of
from .counts import COUNT_LIMIT, CappedCount

#: A waiting or streaming worker is written at least this often; after this time its gateway must have died.
PRESENT_FOR = timedelta(minutes=1)
_PAGE = 500
_KEY = ["gateway", "protocol", "client", "worker", "type"]
_CHANGING = ["tenants", "streams", "polls", "activated", "open_streams", "last_seen"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRow:
    """A gateway's record of a worker. ``streams`` is the number of open streams, ``open_streams`` those shown."""

    protocol: str
    client: str
    worker: str
    type: str
    tenants: list[str]
    streams: int
    polls: int
    activated: int
    open_streams: list[dict[str, Any]]
    first_seen: datetime
    last_seen: datetime


def write_workers(using: str, gateway: str, rows: Sequence[WorkerRow]) -> None:
    """Insert or replace the rows of a gateway, with a transaction for each page."""
    made = [
        ExternalWorker(gateway=gateway, **{name: getattr(row, name) for name in WorkerRow.__slots__}) for row in rows
    ]
    target = _KEY if names_conflict_target(using) else None
    table = ExternalWorker.objects.using(using)
    for start in range(0, len(made), _PAGE):
        with atomic(using):
            table.bulk_create(
                made[start : start + _PAGE], update_conflicts=True, update_fields=_CHANGING, unique_fields=target
            )


class Connected(NamedTuple):
    """The workers of a protocol that were seen within :data:`PRESENT_FOR`, and their open streams and polls."""

    protocol: str
    workers: int
    streams: int
    polls: int


def connected(using: str) -> list[Connected]:
    """The connected workers by protocol, in one statement."""
    seen = ExternalWorker.objects.using(using).filter(last_seen__gte=time_of(using) - PRESENT_FOR)
    rows: Any = seen.values("protocol").annotate(n=Count("pk"), open=Sum("streams"), waiting=Sum("polls"))
    return [Connected(row["protocol"], row["n"], row["open"], row["waiting"]) for row in rows.order_by("protocol")]


def jobs_held(using: str, workers: Collection[tuple[str, str]]) -> dict[tuple[str, str], CappedCount]:
    """The number of jobs that each of these workers (name, type) holds now, in one statement; counting is bounded."""
    rows = ExternalWorkerJob.objects.using(using).filter(
        lock_owner__in={name for name, _ in workers},
        handler_type__in={type for _, type in workers},
        lock_expiration_time__gt=time_of(using),
    )
    held = list(rows.order_by().values_list("lock_owner", "handler_type")[: COUNT_LIMIT + 1])
    found, more = Counter(held), len(held) > COUNT_LIMIT
    return {worker: CappedCount.upto(found[worker], more) for worker in workers}


def forget_workers(using: str, ttl: timedelta) -> int:
    """Remove the rows of workers that no gateway has seen for ``ttl``; return how many.

    Also reset the rows of killed gateways, which would still show waiting workers.
    """
    now = time_of(using)
    rows = ExternalWorker.objects.using(using)
    with atomic(using):
        deleted = delete_rows(rows.filter(last_seen__lt=now - ttl))
        gone = rows.filter(last_seen__lt=now - PRESENT_FOR).exclude(streams=0, polls=0)
        gone.update(streams=0, polls=0, open_streams=[])
    return deleted
