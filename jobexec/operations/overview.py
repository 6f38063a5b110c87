"""The overview for operators, in few statements, whatever the size of the tables. Read-only."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.db.models import Q

from jobexec.conf import get_settings
from jobexec.identifiers import own_together
from jobexec.models import (
    Batch,
    BatchState,
    BlockedJob,
    ExecutorNode,
    NodeState,
    Schedule,
    Suspension,
    SuspensionScope,
    TimerJob,
)

from .reports.counts import COUNT_LIMIT, CappedCount, JobCounts, job_counts
from .reports.failure_groups import GroupOfFailures, TroublingGroup, failure_groups, incidents_by_group
from .reports.resources import ResourceStatus, troubled
from .reports.running import JobInHand, jobs_in_hand
from .reports.subjects import Split, backlog_over_time, split_by
from .reports.throughput import HandlerTraffic, Traffic, traffic, traffic_by_handler
from .reports.unserved_types import TypeWithoutWorker, types_without_worker
from .sql.server_time import time_of

if TYPE_CHECKING:
    from .batches.control import BatchProgress

TIMERS_SHOWN = 10
TIMERS_READ = 2_000
"""How many of the next timers are read to group them by handler."""
SCHEDULES_SHOWN = 10
BATCHES_SHOWN = 5
NODES_SHOWN = 100
SUSPENSIONS_SHOWN = 20
GROUPS_SHOWN = 8
RESOURCES_SHOWN = 10
RUNNING_SHOWN = 20
HANDLERS_SHOWN = 20

OF_ALL_TENANTS = frozenset({"nodes", "failure_groups", "traffic", "handlers", "backlog", "unserved", "resources"})
PARTS = frozenset({"counts", "incidents", "running", "timers", "schedules", "suspensions", "batches"}) | OF_ALL_TENANTS
"""The parts to which :func:`overview` can be limited."""


@dataclass(frozen=True, slots=True)
class NextTimers:
    """The next timers of a handler, or of all of jobexec's own handlers, and the first of them."""

    handler_type: str
    id: UUID
    due_date: datetime
    count: CappedCount
    retries: int
    """How many of them are waiting retries."""


@dataclass(frozen=True, slots=True)
class NextFiring:
    """The next firing of a schedule."""

    id: int
    name: str
    handler_type: str
    expression: str
    next_time: datetime


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """An executor: its heartbeat, lease and load."""

    id: UUID
    name: str
    label: str
    """The name, with the process if several nodes have it."""
    state: NodeState
    heartbeat_time: datetime
    heartbeat_age: timedelta
    lease_left: timedelta
    """Negative after the lease has expired."""
    busy_threads: int
    threads: int
    stuck_threads: int
    queued_jobs: int
    queue_size: int

    @property
    def lease_good(self) -> bool:
        """Whether its lease is valid, so that its locks count."""
        return self.lease_left > timedelta(0) and self.state != NodeState.DEAD

    @property
    def taking(self) -> bool:
        """Whether it is alive and takes jobs."""
        return self.lease_good and self.state == NodeState.ACTIVE


@dataclass(frozen=True, slots=True)
class RunningBatch:
    """An unfinished batch with its progress."""

    batch: Batch
    progress: BatchProgress


@dataclass(frozen=True, slots=True)
class Overview:
    """The state of an engine at ``now``; None for parts that were not requested or that the tenants may not see.

    Lists are limited to the numbers above, ``counts`` to :data:`~jobexec.operations.reports.counts.COUNT_LIMIT`.
    """

    using: str
    now: datetime
    period: timedelta
    tenants: frozenset[str] | None
    counts: JobCounts | None = None
    incidents: CappedCount | None = None
    loud_incidents: CappedCount | None = None
    """Those whose group of failures is neither acknowledged nor snoozed."""
    troubling_groups: list[TroublingGroup] | None = None
    """The groups with the most of these."""
    timers: list[NextTimers] | None = None
    """One entry for each handler, the next due first."""
    schedules: list[NextFiring] | None = None
    nodes: list[NodeStatus] | None = None
    suspensions: list[Suspension] | None = None
    """The suspensions in force."""
    planned: list[Suspension] | None = None
    batches: list[RunningBatch] | None = None
    failure_groups: list[GroupOfFailures] | None = None
    """The groups with failures in the period."""
    traffic: Traffic | None = None
    backlog: list[tuple[datetime, float]] | None = None
    """How many executable jobs waited in each step of the period, on average."""
    split: Split | None = None
    """The traffic by handler, category or node, if that was asked for."""
    running: list[JobInHand] | None = None
    """The jobs in hand, the longest first."""
    handlers: list[HandlerTraffic] | None = None
    """The handlers with the most runs in the period."""
    resources: list[ResourceStatus] | None = None
    """The resources whose breaker is not closed, or for which jobs wait."""
    unserved: list[TypeWithoutWorker] | None = None
    """External job types with waiting jobs for which no worker asks."""

    @property
    def oldest_due(self) -> datetime | None:
        """Since when the longest waiting job has been due: an unlocked executable job, or a timer."""
        moments = [] if self.counts is None else [self.counts.oldest_due]
        moments += [timer.due_date for timer in (self.timers or [])[:1]]
        return min((moment for moment in moments if moment is not None and moment <= self.now), default=None)


@dataclass(frozen=True, slots=True)
class _Question:
    using: str
    now: datetime
    period: timedelta
    tenants: frozenset[str] | None
    by: str | None = None

    def ours(self) -> Q:
        """The condition for the tenants, in a table that has them."""
        return Q() if self.tenants is None else Q(tenant_id__in=self.tenants)


def overview(
    using: str,
    *,
    tenants: Iterable[str] | None = None,
    period: timedelta = timedelta(hours=1),
    parts: Collection[str] | None = None,
    by: str | None = None,
) -> Overview:
    """Collect the overview, or some of its :data:`PARTS`.

    ``tenants``: count only their rows, and omit parts whose rows have no tenant: nodes, meters and failure groups.
    ``period`` is how far back the meters are read, and ``by`` (:data:`~.reports.subjects.SPLITS`) splits the traffic.
    """
    wanted = PARTS if parts is None else frozenset(parts)
    if wanted - PARTS:
        expected, got = ", ".join(sorted(PARTS)), ", ".join(sorted(wanted - PARTS))
        raise ValueError(f"parts: expected some of {expected}, got {got}.")
    ask = _Question(using, time_of(using), period, None if tenants is None else frozenset(tenants), by)
    found: dict[str, Any] = {}
    for name, look in _LOOKS.items():
        if name in wanted and (ask.tenants is None or name not in OF_ALL_TENANTS):
            found |= look(ask)
    return Overview(using, ask.now, period, ask.tenants, **found)


def _counts(ask: _Question) -> dict[str, Any]:
    return {"counts": job_counts(ask.using, ask.tenants)}


def _incidents(ask: _Question) -> dict[str, Any]:
    found = incidents_by_group(ask.using, ask.now, ask.tenants)
    groups = found.groups if ask.tenants is None else None
    return {"incidents": found.total, "loud_incidents": found.loud, "troubling_groups": groups}


def _timers(ask: _Question) -> dict[str, Any]:
    rows = TimerJob.objects.using(ask.using).filter(due_date__isnull=False).order_by("due_date")
    # There is no index by handler or tenant, so a fixed number of the next timers is searched.
    most = TIMERS_READ if ask.tenants is None else COUNT_LIMIT
    found = list(rows.values_list("handler_type", "pk", "due_date", "attempts", "tenant_id")[: most + 1])
    groups: dict[str, list[tuple[UUID, datetime, int]]] = {}
    for handler, id, due_date, attempts, tenant in found[:most]:
        # SQLite accepts any text as a date, and Django reads it as None.
        if due_date is not None and (ask.tenants is None or tenant in ask.tenants):
            groups.setdefault(own_together(handler), []).append((id, due_date, attempts))
    more = len(found) > most
    return {
        "timers": [
            NextTimers(
                handler_type=handler,
                id=timers[0][0],
                due_date=timers[0][1],
                count=CappedCount.upto(len(timers), more),
                retries=sum(attempts > 0 for _, _, attempts in timers),
            )
            for handler, timers in islice(groups.items(), TIMERS_SHOWN)
        ]
    }


def _schedules(ask: _Question) -> dict[str, Any]:
    rows = Schedule.objects.using(ask.using).filter(next_time__isnull=False).order_by("next_time", "id")
    columns = ("pk", "name", "handler_type", "expression", "next_time")
    if ask.tenants is None:
        return {"schedules": [NextFiring(*row) for row in rows.values_list(*columns)[:SCHEDULES_SHOWN]]}
    # A schedule's tenant is in the options of its jobs.
    found = rows.values_list("options", *columns)[:COUNT_LIMIT]
    ours = (NextFiring(*row) for options, *row in found if (options or {}).get("tenant_id", "") in ask.tenants)
    return {"schedules": list(islice(ours, SCHEDULES_SHOWN))}


def _nodes(ask: _Question) -> dict[str, Any]:
    rows = ExecutorNode.objects.using(ask.using).told_apart().order_by("name", "start_time", "id")[:NODES_SHOWN]
    return {"nodes": [_status(row, ask.now) for row in rows]}


def _status(row: ExecutorNode, now: datetime) -> NodeStatus:
    return NodeStatus(
        id=row.pk,
        name=row.name,
        label=row.label,
        state=NodeState(row.state),
        heartbeat_time=row.heartbeat_time,
        heartbeat_age=now - row.heartbeat_time,
        lease_left=row.lease_expiration_time - now,
        busy_threads=row.busy_threads,
        threads=row.threads,
        stuck_threads=row.stuck_threads,
        queued_jobs=row.queued_jobs,
        queue_size=row.queue_size,
    )


def _suspensions(ask: _Question) -> dict[str, Any]:
    ours = Q() if ask.tenants is None else Q(scope=SuspensionScope.TENANT, value__in=ask.tenants)
    rows = Suspension.objects.using(ask.using).filter(ours, live=True).exclude(activate_time__lte=ask.now)
    begun = Q(suspend_time=None) | Q(suspend_time__lte=ask.now)
    return {
        "suspensions": list(rows.filter(begun).order_by("-pk")[:SUSPENSIONS_SHOWN]),
        "planned": list(rows.exclude(begun).order_by("suspend_time", "pk")[:SUSPENSIONS_SHOWN]),
    }


def _batches(ask: _Question) -> dict[str, Any]:
    from .batches.control import batch_progress

    states = (BatchState.OPEN, BatchState.SEEDING, BatchState.RUNNING)
    rows = Batch.objects.using(ask.using).filter(ask.ours(), state__in=states).order_by("-create_time")[:BATCHES_SHOWN]
    return {"batches": [RunningBatch(row, batch_progress(row)) for row in rows]}


def _failure_groups(ask: _Question) -> dict[str, Any]:
    return {"failure_groups": failure_groups(ask.using, since=ask.now - ask.period, limit=GROUPS_SHOWN)}


def _traffic(ask: _Question) -> dict[str, Any]:
    found = {"traffic": traffic(ask.using, ask.now, ask.period)}
    if ask.by is None:
        return found
    return {**found, "split": split_by(ask.using, ask.by, ask.now, ask.period, get_settings().categories)}


def _backlog(ask: _Question) -> dict[str, Any]:
    return {"backlog": backlog_over_time(ask.using, ask.now, ask.period)}


def _running(ask: _Question) -> dict[str, Any]:
    return {"running": jobs_in_hand(ask.using, RUNNING_SHOWN, ask.tenants)}


def _handlers(ask: _Question) -> dict[str, Any]:
    return {"handlers": traffic_by_handler(ask.using, ask.now, ask.period, HANDLERS_SHOWN)}


def _resources(ask: _Question) -> dict[str, Any]:
    # Also without RESOURCES: jobs may wait for an entry that is gone.
    some = get_settings().resources or BlockedJob.objects.using(ask.using).exclude(resource=None).exists()
    return {"resources": troubled(ask.using, RESOURCES_SHOWN) if some else []}


def _unserved(ask: _Question) -> dict[str, Any]:
    return {"unserved": types_without_worker(ask.using, get_settings().external_worker_alert_after)}


_LOOKS = {
    "counts": _counts,
    "incidents": _incidents,
    "timers": _timers,
    "schedules": _schedules,
    "nodes": _nodes,
    "suspensions": _suspensions,
    "batches": _batches,
    "failure_groups": _failure_groups,
    "traffic": _traffic,
    "backlog": _backlog,
    "running": _running,
    "handlers": _handlers,
    "resources": _resources,
    "unserved": _unserved,
}
