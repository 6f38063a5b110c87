"""External jobs and their incidents, wherever they are now; of those that are over the job log knows how many."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Count, Max, Q, QuerySet
from django.db.models.functions import Substr
from django.db.models.lookups import Exact

from jobexec import clock
from jobexec.models import (
    AbstractJob,
    DeadLetterJob,
    ExternalWorker,
    ExternalWorkerJob,
    Incident,
    IncidentState,
    JobLog,
    JobType,
    LogState,
    SuspendedJob,
)

from .external_types import EVERYTHING, Caller
from .incidents import UNHANDLED_ERROR

#: What has become of a job (Zeebe). One that a worker holds, and one that is suspended, is still only created.
CREATED, FAILED, ERROR_THROWN, TIMED_OUT = "CREATED", "FAILED", "ERROR_THROWN", "TIMED_OUT"

TABLES: tuple[type[AbstractJob], ...] = (ExternalWorkerJob, DeadLetterJob, SuspendedJob)
#: So many jobs of each table are looked through at most for what no column says, and when they are sorted by hand.
MOST = 10_000


@dataclass(frozen=True, slots=True)
class Found:
    """A job, and what its row says in the words of Zeebe."""

    row: AbstractJob
    state: str
    deadline: datetime | None = None
    failed_with_retries_left: bool = False


def visible(rows: QuerySet[Any], caller: Caller) -> QuerySet[Any]:
    """Those of the rows, of jobs, incidents or the log, that the caller may see."""
    if caller.types is not None:
        rows = rows.filter(of_types(caller.types))
    if caller.tenants is not None:
        rows = rows.filter(tenant_id__in=sorted(caller.tenants))
    return rows


def of_types(types: Collection[str]) -> Q:
    """Those of these types; one that ends in ``*`` stands for all that begin like it."""
    exact = [type for type in types if not type.endswith("*")]
    condition = Q(handler_type__in=sorted(exact))
    for type in sorted(types):
        if type.endswith("*"):
            condition |= _begins_like(type[:-1])
    return condition


def _begins_like(prefix: str) -> Q:
    # Compared again: LIKE does not tell capitals from small letters on SQLite.
    return Q(handler_type__startswith=prefix) & Q(Exact(Substr("handler_type", 1, len(prefix)), prefix))


def external_rows(using: str, table: type[AbstractJob], caller: Caller = EVERYTHING) -> QuerySet[Any]:
    """The external jobs of one of :data:`TABLES` that the caller may see."""
    rows = table._base_manager.using(using).filter(job_key__isnull=False)
    if table is not ExternalWorkerJob:
        rows = rows.filter(type=JobType.EXTERNAL)
    return visible(rows, caller)


def search_external_jobs(using: str, where: Q, caller: Caller = EVERYTHING) -> list[Found]:
    """The jobs that are not over, by their keys: of each table the :data:`MOST` oldest that match at most."""
    found: list[Found] = []
    for table in TABLES:
        rows = external_rows(using, table, caller).filter(where).order_by("job_key")
        found += _found(using, list(rows[:MOST]))
    return sorted(found, key=lambda each: each.row.job_key or 0)


def _found(using: str, rows: Sequence[AbstractJob]) -> list[Found]:
    dead = [row.pk for row in rows if isinstance(row, DeadLetterJob)]
    thrown = _thrown(using, dead)
    now = clock.now(using)
    return [_said(row, row.pk in thrown, now) for row in rows]


def _thrown(using: str, dead: Sequence[Any]) -> set[Any]:
    found: set[Any] = set()
    for start in range(0, len(dead), 500):
        incidents = Incident.objects.using(using).filter(
            job_id__in=dead[start : start + 500], state=IncidentState.OPEN, type=UNHANDLED_ERROR
        )
        found.update(incidents.values_list("job_id", flat=True))
    return found


def _said(row: AbstractJob, thrown: bool, now: datetime) -> Found:
    if isinstance(row, DeadLetterJob):
        return Found(row, ERROR_THROWN if thrown else FAILED)
    if isinstance(row, SuspendedJob):
        return Found(row, CREATED)
    deadline = row.lock_expiration_time
    over = deadline is not None and deadline <= now
    failed = bool(row.handler_configuration.get("failures")) if isinstance(row.handler_configuration, dict) else False
    state = TIMED_OUT if over else FAILED if failed and deadline is None else CREATED
    return Found(row, state, deadline=deadline, failed_with_retries_left=failed and row.retries > 0)


def search_incidents(using: str, where: Q, caller: Caller = EVERYTHING) -> QuerySet[Incident]:
    """Incidents of external jobs, open or over, that the caller may see."""
    return visible(Incident.objects.using(using).filter(incident_key__isnull=False), caller).filter(where)


def keys_of_jobs(using: str, incidents: Sequence[Incident]) -> dict[Any, int]:
    """The keys of the jobs of these incidents, by id, of those that are still there."""
    found: dict[Any, int] = {}
    ids = [incident.job_id for incident in incidents]
    for table in TABLES:
        rows = table._base_manager.using(using).filter(pk__in=ids, job_key__isnull=False)
        found.update((id, key) for id, key in rows.values_list("pk", "job_key") if key is not None)
    return found


@dataclass(slots=True)
class Figures:
    """How many, and when the last one was."""

    count: int = 0
    last: datetime | None = None


#: What a line of the log tells of a job: it was created, it has failed, it was completed.
_EVENTS: Mapping[str, str] = {LogState.CREATED: "created", LogState.FAILED: "failed", LogState.SUCCESSFUL: "completed"}


def external_statistics(
    using: str,
    begin: datetime,
    end: datetime,
    *,
    by: str | None,
    types: Collection[str] | None = None,
    caller: Caller = EVERYTHING,
) -> dict[str, dict[str, Figures]]:
    """How many jobs of these types were created, completed and have failed in a span of time, by the job log.

    ``by``: for each "handler_type" or "node" (the worker); None: for all together, by the empty text. The log has what
    the setting HISTORY_LEVEL lets it have, and for as long as HISTORY_TIME_TO_LIVE. Without ``types`` those of
    :func:`external_types`.
    """
    named = external_types(using, caller) if types is None else types
    log = visible(JobLog.objects.using(using), caller).filter(
        timestamp__gte=begin, timestamp__lt=end, handler_type__in=sorted(named), state__in=list(_EVENTS)
    )
    columns = ["state"] if by is None else ["state", by]
    found: dict[str, dict[str, Figures]] = {}
    for line in log.order_by().values(*columns).annotate(n=Count("pk"), last=Max("timestamp")):
        group = found.setdefault("" if by is None else line[by], no_figures())
        group[_EVENTS[line["state"]]] = Figures(line["n"], line["last"])
    return found


def no_figures() -> dict[str, Figures]:
    """Nothing of anything."""
    return {name: Figures() for name in _EVENTS.values()}


def external_types(using: str, caller: Caller = EVERYTHING) -> set[str]:
    """The types of external jobs that the caller may see: of which there are some, or that workers have asked for.

    What workers ask for belongs to no tenant, so that a caller who may see the jobs of some tenants is not told of it.
    """
    found: set[str] = set()
    for table in TABLES:
        found.update(external_rows(using, table, caller).order_by().values_list("handler_type", flat=True).distinct())
    if caller.tenants is not None:
        return found
    seen = ExternalWorker.objects.using(using).order_by().values_list("type", flat=True).distinct()
    return found | {type for type in seen if caller.may_fetch(type)}


def workers_of(using: str, types: Collection[str]) -> dict[str, int]:
    """How many workers have asked for each of these types of late."""
    rows = ExternalWorker.objects.using(using).filter(type__in=sorted(types)).order_by()
    return dict(rows.values_list("type").annotate(Count("worker", distinct=True)))
