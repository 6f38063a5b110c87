"""Search external jobs and their incidents in all tables, and count ended jobs in the job log."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Count, Exists, Max, OuterRef, Q, QuerySet
from django.db.models.fields.json import KT
from django.db.models.functions import Substr
from django.db.models.lookups import Exact

from jobexec import clock
from jobexec.models import (
    EXTERNAL_TABLES,
    AbstractJob,
    ExternalWorker,
    ExternalWorkerJob,
    Incident,
    IncidentState,
    JobLog,
    LogState,
)

from ..history.incidents import UNHANDLED_ERROR
from ..history.keys import next_keys
from .types import EVERYTHING, Caller

#: A job's states (Zeebe). A job that a worker holds, or that is suspended, is still CREATED.
CREATED, FAILED, ERROR_THROWN, TIMED_OUT = "CREATED", "FAILED", "ERROR_THROWN", "TIMED_OUT"
#: The maximum number of jobs read from each table for conditions without a column, and for sorting in Python.
MOST = 10_000


#: What a search reads from a job's configuration; the whole may be large and stays in the database.
_CONFIGURED = {name: KT(f"handler_configuration__{name}") for name in ("business_key", "element_id", "failures")}
#: The numbers of its process, in the same place.
_CONFIGURED |= {
    f"{name}_key": KT(f"handler_configuration__keys__{name}") for name in ("instance", "root", "definition")
}
_FALSE = frozenset({"", "0", "false", "null"})
_PAGE = 1000


@dataclass(frozen=True, slots=True)
class Found:
    """A job with its state in Zeebe's terms. Only the requested columns are loaded."""

    row: Any
    now: datetime

    @property
    def deadline(self) -> datetime | None:
        """Until when a worker holds or held it."""
        return self.row.lock_expiration_time if isinstance(self.row, ExternalWorkerJob) else None

    @property
    def failed_with_retries_left(self) -> bool:
        return bool(self.row.runnable) and has_failed(self.row) and self.row.retries > 0

    @property
    def state(self) -> str:
        if self.row.dead:
            return ERROR_THROWN if self.row.thrown else FAILED
        if not self.row.runnable:
            return CREATED
        if self.deadline is None:
            return FAILED if has_failed(self.row) else CREATED
        return TIMED_OUT if self.deadline <= self.now else CREATED


def without_large(rows: QuerySet[Any], *loaded: str) -> QuerySet[Any]:
    """Defer arguments, headers and stack traces, except those named in ``loaded``.

    The parts of the arguments that a search shows are annotations: ``business_key``, ``element_id``, ``failures``,
    ``instance_key``, ``root_key`` and ``definition_key``, each a text or None.
    """
    large = ("handler_configuration", "custom_headers", "exception_stack")
    annotated: QuerySet[Any] = rows.annotate(**_CONFIGURED)
    return annotated.defer(*(name for name in large if name not in loaded))


def has_failed(row: Any) -> bool:
    """Return whether a worker has reported a failure of a job that :func:`without_large` loaded."""
    return row.failures is not None and row.failures not in _FALSE


def visible(rows: QuerySet[Any], caller: Caller) -> QuerySet[Any]:
    """Limit rows of jobs, incidents or the log to those that the caller may see."""
    if caller.types is not None:
        rows = rows.filter(of_types(caller.types))
    if caller.tenants is not None:
        rows = rows.filter(tenant_id__in=sorted(caller.tenants))
    return rows


def of_types(types: Collection[str]) -> Q:
    """Match these types; a type that ends in ``*`` is a prefix."""
    exact = [type for type in types if not type.endswith("*")]
    condition = Q(handler_type__in=sorted(exact))
    for type in sorted(types):
        if type.endswith("*"):
            condition |= _begins_like(type[:-1])
    return condition


def _begins_like(prefix: str) -> Q:
    # Compared again: LIKE is case-insensitive on SQLite.
    return Q(handler_type__startswith=prefix) & Q(Exact(Substr("handler_type", 1, len(prefix)), prefix))


def external_rows(using: str, table: type[AbstractJob], caller: Caller = EVERYTHING) -> QuerySet[Any]:
    """The external jobs of one of :data:`~jobexec.models.EXTERNAL_TABLES` that the caller may see."""
    return visible(table._base_manager.using(using).filter(job_key__isnull=False), caller)


def search_external_jobs(
    using: str, where: Q, columns: Collection[str], caller: Caller = EVERYTHING
) -> Iterator[Found]:
    """The matching jobs that have not ended: from each table at most the :data:`MOST` oldest.

    Only ``columns`` are loaded: columns of the tables, the annotations of :func:`without_large`, and ``thrown``
    (whether a thrown error ended it).
    """
    now = clock.now(using)
    for table in EXTERNAL_TABLES:
        rows = external_rows(using, table, caller).filter(where)
        for row in _oldest(_with(rows, {"job_key", *columns})):
            yield Found(row, now)


def external_jobs_by_key(using: str, keys: Collection[int], caller: Caller = EVERYTHING) -> dict[int, Found]:
    """The jobs with these keys that still exist, with everything that a search shows."""
    now, found, wanted = clock.now(using), dict[int, Found](), list(keys)
    for table in EXTERNAL_TABLES:
        rows = without_large(external_rows(using, table, caller), "custom_headers")
        if table.dead:
            rows = rows.annotate(thrown=_thrown())
        for start in range(0, len(wanted), _PAGE):
            some = rows.filter(job_key__in=wanted[start : start + _PAGE])
            found |= {row.job_key: Found(row, now) for row in some}
    return found


def _with(rows: QuerySet[Any], columns: Collection[str]) -> QuerySet[Any]:
    derived: dict[str, Any] = {name: _CONFIGURED[name] for name in columns if name in _CONFIGURED}
    if "thrown" in columns and rows.model.dead:
        derived["thrown"] = _thrown()
    annotated: QuerySet[Any] = rows.annotate(**derived)
    return annotated.only(*(name for name in columns if name not in {*_CONFIGURED, "thrown"}))


def _thrown() -> Exists:
    incidents = Incident.objects.filter(state=IncidentState.OPEN, type=UNHANDLED_ERROR)
    return Exists(incidents.filter(job_id=OuterRef("pk")))


def _oldest(rows: QuerySet[Any]) -> Iterator[Any]:
    last = None
    for start in range(0, MOST, _PAGE):
        rest = rows if last is None else rows.filter(job_key__gt=last)
        page = list(rest.order_by("job_key")[: min(_PAGE, MOST - start)])
        yield from page
        if len(page) < _PAGE:
            return
        last = page[-1].job_key


def search_incidents(using: str, where: Q, caller: Caller = EVERYTHING) -> QuerySet[Incident]:
    """Incidents of external jobs and of processes, open or resolved, that the caller may see."""
    _give_keys(using, caller)
    return visible(Incident.objects.using(using).filter(incident_key__isnull=False), caller).filter(where)


def _give_keys(using: str, caller: Caller) -> None:
    """Give keys to open incidents of processes: they are opened without keys, as few clients ever look for them."""
    rows = visible(Incident.objects.using(using).filter(state=IncidentState.OPEN, incident_key=None), caller)
    lacking = rows.exclude(process_instance_id="").exclude(process_definition_key="")
    ids = list(lacking.order_by("timestamp").values_list("pk", flat=True)[:_PAGE])
    for id, key in zip(ids, next_keys(using, len(ids)), strict=True):
        Incident.objects.using(using).filter(pk=id, incident_key=None).update(incident_key=key)


def keys_of_jobs(using: str, incidents: Sequence[Incident]) -> dict[Any, int]:
    """The keys of these incidents' jobs by job id, for jobs that still exist."""
    found: dict[Any, int] = {}
    ids = [incident.job_id for incident in incidents if incident.job_id is not None]
    for table in EXTERNAL_TABLES:
        rows = table._base_manager.using(using).filter(job_key__isnull=False)
        for start in range(0, len(ids), _PAGE):
            some = rows.filter(pk__in=ids[start : start + _PAGE])
            found.update((id, key) for id, key in some.values_list("pk", "job_key") if key is not None)
    return found


@dataclass(slots=True)
class Figures:
    """The number of events, and the time of the last one."""

    count: int = 0
    last: datetime | None = None


#: The events that are counted, by the state in the log.
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
    """Count the jobs of these types that were created, were completed or failed in a period, from the job log.

    ``by``: group by "handler_type" or "node" (the worker); None: one total, under the key "". The settings
    HISTORY_LEVEL and HISTORY_TIME_TO_LIVE decide what the log contains and for how long. The default of ``types`` is
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
    """Zero figures for each event."""
    return {name: Figures() for name in _EVENTS.values()}


def external_types(using: str, caller: Caller = EVERYTHING) -> set[str]:
    """The types that the caller may see: those with external jobs, and those that workers have asked for.

    Workers' requests do not belong to a tenant, so a caller that is limited to some tenants does not see those types.
    """
    found: set[str] = set()
    for table in EXTERNAL_TABLES:
        found.update(external_rows(using, table, caller).order_by().values_list("handler_type", flat=True).distinct())
    if caller.tenants is not None:
        return found
    seen = ExternalWorker.objects.using(using).order_by().values_list("type", flat=True).distinct()
    return found | {type for type in seen if caller.may_fetch(type)}


def workers_of(using: str, types: Collection[str]) -> dict[str, int]:
    """The number of workers that have recently asked for each of these types."""
    rows = ExternalWorker.objects.using(using).filter(type__in=sorted(types)).order_by()
    return dict(rows.values_list("type").annotate(Count("worker", distinct=True)))
