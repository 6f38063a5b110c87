"""Bounded row counts for tables of any size: no query counts more than a fixed number of rows."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import connections
from django.db.models import Count, Min, Model, Q, QuerySet
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
from ..sql.dialect import dialect
from ..values.ranking import MAX_PRIORITY, due_by_rank

COUNT_LIMIT = 10_000
"""Where counting stops. Larger numbers are shown as their estimates, or without one as "10,000+"."""

ESTIMATES_FROM = 2
"""An estimate below this multiple of :data:`COUNT_LIMIT` says no more than the count: it may be wrong by half."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class CappedCount(int):
    """A number of rows; if counting stopped early, it is a lower bound, shown as "10,000+", or as its estimate."""

    capped = False
    estimate: int | None = None
    """About how many there are, where counting stopped early and the database knows; shown as "≈146,000"."""

    @classmethod
    def of(cls, queryset: QuerySet[Any]) -> CappedCount:
        """Count up to :data:`COUNT_LIMIT` rows: the database stops reading at the LIMIT of the subquery.

        If there are more, they are estimated (:func:`estimated`), which costs a statement or two that read no table.
        """
        count = cls.upto(queryset.order_by().values("pk")[: COUNT_LIMIT + 1].count())
        if count.capped:
            count.estimate = estimated(queryset)
        return count

    @classmethod
    def upto(cls, found: int, more: bool | None = None) -> CappedCount:
        """A count of the rows found; ``more``: there may be more, by default if the limit is exceeded."""
        count = cls(min(found, COUNT_LIMIT))
        count.capped = found > COUNT_LIMIT if more is None else more
        return count

    @classmethod
    def total(cls, *counts: CappedCount) -> CappedCount:
        """The sum of counts, a lower bound if any of them is."""
        count = cls(sum(counts))
        count.capped = any(each.capped for each in counts)
        if any(each.estimate for each in counts):
            count.estimate = sum(each.likely for each in counts)
        return count

    @property
    def likely(self) -> int:
        """The estimate, or what was counted."""
        return int(self) if self.estimate is None else self.estimate

    def __str__(self) -> str:
        # With USE_THOUSAND_SEPARATOR, Django regroups the returned text, so it must consist of digits.
        return str(self.likely) if settings.USE_THOUSAND_SEPARATOR else self.text

    @property
    def text(self) -> str:
        """The number as people read it, where no template regroups it."""
        if self.estimate is not None:
            return f"≈{number_format(_rounded(self.estimate), force_grouping=True)}"
        return self.counted

    @property
    def counted(self) -> str:
        """The same without its estimate."""
        return f"{number_format(int(self), force_grouping=True)}{'+' if self.capped else ''}"


def _rounded(number: int) -> int:
    """The number with three significant digits."""
    return int(float(f"{number:.3g}"))


@dataclass(frozen=True, slots=True)
class JobCounts:
    """The number of jobs in each state, and since when the first executable job has been due.

    Of a table with more than :data:`COUNT_LIMIT` rows, only the oldest by primary key are counted, and the numbers are
    lower bounds; where the database estimates that the table has far more rows, the largest has an estimate.
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
    free, now = ours & Q(lock_owner=None), clock.now(using)
    states: dict[type[AbstractJob], dict[str, Q]] = {
        Job: {"free": free, "in_progress": ours & ~Q(lock_owner=None)},
        TimerJob: {"timers": ours & Q(attempts=0), "retries": ours & Q(attempts__gt=0)},
        BlockedJob: {"blocked": ours},
        SuspendedJob: {"suspended": ours},
        DeadLetterJob: {"dead_letters": ours},
        HistoryJob: {"history": ours},
        ExternalWorkerJob: {
            "external": ours & is_free(ExternalWorkerJob, now),
            "with_workers": ours & is_held(ExternalWorkerJob, now),
        },
    }
    counts: dict[str, CappedCount] = {}
    due: int | None = None
    for table, conditions in states.items():
        more = {"due": first_due(using, free)} if table is Job else {}
        found = _look(table, using, **{name: _count(each) for name, each in conditions.items()}, **more)
        due = found.get("due", due)
        of_table = {name: _capped(found, name) for name in conditions}
        if found["all"] > COUNT_LIMIT and tenants is None:
            _estimate(of_table, using, table)
        counts |= of_table
    return JobCounts(**counts, oldest_due=moment(due))


def _estimate(counts: dict[str, CappedCount], using: str, table: type[Model]) -> None:
    """Estimate the largest of the counts of a table, from what the database knows about the size of the table."""
    rows = _many(estimated_rows(using, table))
    if rows is not None:
        name = max(counts, key=lambda each: int(counts[each]))
        counts[name].estimate = rows - sum(count for each, count in counts.items() if each != name)


def estimated(queryset: QuerySet[Any]) -> int | None:
    """About how many rows a queryset has; None if the database does not know, or says no more than a count would.

    Without a condition these are all rows of the table. How many rows meet a condition, PostgreSQL's planner expects
    from its statistics of the columns. MariaDB has none of columns without an index, and SQLite has none at all: there
    such counts stay lower bounds. (All rows of a table SQLite counts, up to a million.)
    """
    rows = _many(estimated_rows(queryset.db, queryset.model))
    if rows is None or not queryset.query.where:
        return rows
    if not dialect(queryset.db).expects_rows:
        return None
    plan = json.loads(queryset.order_by().values("pk").explain(format="json"))[0]["Plan"]
    return _many(min(rows, int(plan["Plan Rows"])))


def _many(rows: int | None) -> int | None:
    return None if rows is None or rows < ESTIMATES_FROM * COUNT_LIMIT else rows


def estimated_rows(using: str, table: type[Model]) -> int | None:
    """About how many rows a table has; None if the database does not know."""
    query = dialect(using).row_estimate
    if query is None:
        return None
    with connections[using].cursor() as cursor:
        cursor.execute(query.format(table=table._meta.db_table))
        row = cursor.fetchone()
    return int(row[0]) if row and row[0] is not None else None


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
