"""What is still to be done in a scope."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from django.db.models import QuerySet

from jobexec import clock
from jobexec.models import AbstractJob, HistoryJob, Job, TimerJob

from .work import Scope

J = TypeVar("J", bound=AbstractJob)


@dataclass(frozen=True, slots=True)
class Pending:
    """``due`` and ``retries``: whether there are executable jobs, or recorded history, and waiting retries; ``timers``:
    how many jobs wait for a first run in the future, ``next_due_date`` when the first of them is due."""

    due: bool
    retries: bool
    timers: int
    next_due_date: datetime | None

    @property
    def empty(self) -> bool:
        """Nothing is due and no retry waits; timers of the future do not count."""
        return not (self.due or self.retries)


def pending(using: str, scope: Scope) -> Pending:
    """What an executor with this scope has before it, whoever runs it: rows that other nodes hold count too."""
    waiting = _in_scope(TimerJob.objects.using(using), scope)
    now, recorded = clock.now(using), HistoryJob.objects.using(using)
    timers = waiting.filter(attempts=0, due_date__gt=now)
    return Pending(
        # A timer that has come due and has not been moved yet is as due as a job.
        due=_in_scope(Job.objects.using(using), scope).exists()
        or waiting.filter(due_date__lte=now).exists()
        or recorded.filter(due_date__lte=now).exists(),
        retries=waiting.filter(attempts__gt=0).exists() or recorded.filter(attempts__gt=0).exists(),
        timers=timers.count(),
        next_due_date=timers.order_by("due_date", "id").values_list("due_date", flat=True).first(),
    )


def _in_scope(rows: QuerySet[J], scope: Scope) -> QuerySet[J]:
    rows = rows.filter(category__in=scope.categories, deployment_id__in=("", *scope.deployments))
    if scope.priority_min is not None:
        rows = rows.filter(priority__gte=scope.priority_min)
    if scope.priority_max is not None:
        rows = rows.filter(priority__lte=scope.priority_max)
    return rows
