"""The jobs that an executor still has to execute."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from operator import or_

from django.db.models import Q

from jobexec import clock
from jobexec.models import BlockedJob, HistoryJob, Job, Message, TimerJob

from ..sql.exists import exist
from ..values.acquired_job import ServedJobs

#: Jobs that have run; one that postponed itself has made no attempt.
_TRIED = Q(attempts__gt=0) | Q(snoozes__gt=0)


@dataclass(frozen=True, slots=True)
class Pending:
    """``due`` and ``retries``: whether there are due jobs or recorded history, and waiting retries; ``timers``: the
    number of jobs that wait for a first run in the future, ``next_due_date``: when the first of them is due."""

    due: bool
    retries: bool
    timers: int
    next_due_date: datetime | None

    @property
    def empty(self) -> bool:
        """Whether nothing is due and no retry waits; future timers do not count."""
        return not (self.due or self.retries)


def pending(using: str, scopes: Iterable[ServedJobs]) -> Pending:
    """The work left for executors that serve ``scopes``; rows that other nodes hold count, too.

    Jobs that wait for a message do not count, nor the end of their waits.
    """
    served = reduce(or_, map(_served, scopes))
    waiting = TimerJob.objects.using(using).filter(served)
    now, recorded = clock.now(using), HistoryJob.objects.using(using)
    timers = waiting.exclude(_TRIED).filter(due_date__gt=now)
    blocked = BlockedJob.objects.using(using).filter(served).filter(Q(waits_for=None) | Q(next_look__lte=now))
    # In one statement: a retry that becomes due meanwhile moves from a table not looked at yet to one that was.
    *due, retries, failed = exist(
        using,
        Job.objects.using(using).filter(served),
        waiting.filter(due_date__lte=now),  # a due timer that has not been moved yet counts as a due job
        blocked,
        Message.objects.using(using).filter(delivery_time__isnull=False),
        recorded.filter(due_date__lte=now),
        waiting.filter(_TRIED),
        recorded.filter(_TRIED),
    )
    return Pending(
        due=any(due),
        retries=retries or failed,
        timers=timers.count(),
        next_due_date=timers.order_by("due_date").values_list("due_date", flat=True).first(),
    )


def _served(scope: ServedJobs) -> Q:
    served = Q(category__in=scope.categories, deployment_id__in=("", *scope.deployments))
    if scope.priority_min is not None:
        served &= Q(priority__gte=scope.priority_min)
    if scope.priority_max is not None:
        served &= Q(priority__lte=scope.priority_max)
    return served
