"""Bounded row counts for tables of any size: no query counts more than a fixed number of rows."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import Count, Min, Q, QuerySet
from django.utils.formats import number_format

from jobexec import clock
from jobexec.models import (
    AbstractJob,
    BlockedJob,
    DeadLetterJob,
    ExternalWorkerJob,
    HistoryJob,
    Incident,
    IncidentState,
    Job,
    SuspendedJob,
    TimerJob,
)

from ..rows.routing import free as is_free
from ..rows.routing import held as is_held
from ..values.ranking import MAX_PRIORITY, due_by_rank

COUNT_LIMIT = 10_000
"""Where counting stops. Larger numbers are shown as "10,000+"."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class CappedCount(int):
    """A number of rows; if counting stopped early, it is a lower bound, shown as "10,000+"."""

    capped = False

    @classmethod
    def of(cls, queryset: QuerySet[Any]) -> CappedCount:
        """Count up to :data:`COUNT_LIMIT` rows: the database stops reading at the LIMIT of the subquery."""
        return cls.upto(queryset.order_by().values("pk")[: COUNT_LIMIT + 1].count())

    @classmethod
    def upto(cls, found: int, more: bool | None = None) -> CappedCount:
        """A count of the rows found; ``more``: there may be more, by default if the limit is exceeded."""
        count = cls(min(found, COUNT_LIMIT))
        count.capped = found > COUNT_LIMIT if more is None else more
        return count

    def __str__(self) -> str:
        # With USE_THOUSAND_SEPARATOR, Django regroups the returned text, so it must consist of digits.
        if settings.USE_THOUSAND_SEPARATOR:
            return int.__repr__(self)
        return f"{number_format(int(self), force_grouping=True)}{'+' if self.capped else ''}"


@dataclass(frozen=True, slots=True)
class JobCounts:
    """The number of jobs in each state, and since when the first executable job has been due.

    Of a table with more than :data:`COUNT_LIMIT` rows, only the oldest by primary key are counted, and the numbers are
    lower bounds.
    """

    free: CappedCount
    in_progress: CappedCount
    timers: CappedCount
    retries: CappedCount
    blocked: CappedCount
    suspended: CappedCount
    dead_letters: CappedCount
    history: CappedCount
    external: CappedCount
    """External jobs that no worker holds."""
    with_workers: CappedCount
    oldest_due: datetime | None
    """None if no executable job waits for a node."""


def job_counts(using: str, tenants: Collection[str] | None = None) -> JobCounts:
    """Count the jobs of all tenants, or of these tenants, with one statement for each table."""
    ours = Q() if tenants is None else Q(tenant_id__in=tenants)
    free = ours & Q(lock_owner=None)
    held = _count(ours & ~Q(lock_owner=None))
    jobs = _look(Job, using, free=_count(free), held=held, due=first_due(using, free))
    timers = _look(TimerJob, using, first=_count(ours & Q(attempts=0)), retry=_count(ours & Q(attempts__gt=0)))
    now = clock.now(using)
    theirs = {
        name: _count(ours & which(ExternalWorkerJob, now)) for name, which in (("free", is_free), ("held", is_held))
    }
    outside = _look(ExternalWorkerJob, using, **theirs)
    return JobCounts(
        free=_capped(jobs, "free"),
        in_progress=_capped(jobs, "held"),
        timers=_capped(timers, "first"),
        retries=_capped(timers, "retry"),
        blocked=_capped(_look(BlockedJob, using, ours=_count(ours)), "ours"),
        suspended=_capped(_look(SuspendedJob, using, ours=_count(ours)), "ours"),
        dead_letters=_capped(_look(DeadLetterJob, using, ours=_count(ours)), "ours"),
        history=_capped(_look(HistoryJob, using, ours=_count(ours)), "ours"),
        external=_capped(outside, "free"),
        with_workers=_capped(outside, "held"),
        oldest_due=moment(jobs["due"]),
    )


def oldest_due(using: str, now: datetime) -> datetime | None:
    """Since when the first unlocked job has been due, among the oldest; due timers not moved yet count as well."""
    job = moment(_look(Job, using, due=first_due(using, Q(lock_owner=None)))["due"])
    timers = TimerJob.objects.using(using).filter(due_date__lte=now).order_by("due_date")
    timer = timers.values_list("due_date", flat=True).first()
    return min((moment for moment in (job, timer) if moment is not None), default=None)


def first_due(using: str, among: Q | None = None) -> Min:
    """Since when the first of these rows has been due, from their ranks; :func:`moment` converts the aggregate."""
    return Min(due_by_rank(using), filter=(among or Q()) & Q(priority__range=(-MAX_PRIORITY, MAX_PRIORITY)))


def moment(milliseconds: int | None) -> datetime | None:
    """Convert the result of :func:`first_due` to a datetime."""
    return None if milliseconds is None else _EPOCH + timedelta(milliseconds=milliseconds)


def open_incidents(using: str, tenants: Collection[str] | None = None) -> CappedCount:
    """The number of open incidents, of all tenants or of these."""
    ours = Q() if tenants is None else Q(tenant_id__in=tenants)
    rows = Incident.objects.using(using).filter(state=IncidentState.OPEN).order_by("timestamp")
    return _capped(rows[: COUNT_LIMIT + 1].aggregate(all=Count("pk"), ours=_count(ours)), "ours")


def _look(table: type[AbstractJob], using: str, **aggregates: Any) -> dict[str, Any]:
    # By primary key: a job that has long been due usually has an old id, and so has a job that a node holds.
    rows = table._base_manager.using(using).order_by("pk")[: COUNT_LIMIT + 1]
    return rows.aggregate(all=Count("pk"), **aggregates)


def _count(condition: Q) -> Count:
    return Count("pk", filter=condition) if condition else Count("pk")


def _capped(found: dict[str, Any], name: str) -> CappedCount:
    return CappedCount.upto(found[name], more=found["all"] > COUNT_LIMIT)
