"""How many jobs nodes and workers hold, where tables are too large to be counted.

The index of external jobs by worker has all that are held. No index of executable jobs contains the locks, but nodes
acquire in the order of an index: each category and deployment is a run of it, with the jobs that are held at its front.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from itertools import islice

from django.db.models import Count, Q, QuerySet, Sum

from jobexec.models import AbstractJob, ExecutorNode, ExternalWorkerJob, Job

from ..rows.routing import held
from .counts import COUNT_LIMIT, CappedCount

#: How many rows at the front of a run are read.
FRONT = 2000
#: How many runs are read.
MOST_RUNS = 30


def held_external(using: str, meant: Q, now: datetime) -> CappedCount:
    """The jobs with these properties that workers hold."""
    named = ExternalWorkerJob._base_manager.using(using).filter(lock_owner__isnull=False)
    rows = named.order_by("lock_owner")[: COUNT_LIMIT + 1]
    found = rows.aggregate(all=Count("pk"), held=Count("pk", filter=meant & held(ExternalWorkerJob, now)))
    return CappedCount.upto(found["held"], found["all"] > COUNT_LIMIT)


def held_executable(using: str, meant: Q, now: datetime) -> CappedCount:
    """The jobs with these properties that nodes hold.

    Jobs may be held further back: of a tenant, if those of another that may not run now come first. The count is a
    lower bound if nodes report more than twice as many as were found; their reports are some seconds old.
    """
    count = every = 0
    more = False
    rows = Job._base_manager.using(using)
    for number, run in enumerate(_runs(rows)):
        if number == MOST_RUNS:
            more = True
            break
        found = (
            rows.filter(run)
            .order_by("rank", "id")[:FRONT]
            .aggregate(every=Count("pk", filter=held(Job, now)), meant=Count("pk", filter=meant & held(Job, now)))
        )
        count, every = count + found["meant"], every + found["every"]
        more = more or found["every"] == FRONT
    return CappedCount.upto(count, more or _reported(using, now) > 2 * every)


def fronts(using: str) -> Iterator[Q]:
    """The conditions of the rows among which nodes hold jobs, one for each index range to read.

    Of a table with more than :data:`~.counts.COUNT_LIMIT` rows these are at the front of each category and deployment.
    """
    rows = Job._base_manager.using(using)
    if not rows.order_by("pk").values_list("pk")[COUNT_LIMIT : COUNT_LIMIT + 1].exists():
        yield Q()
        return
    for run in islice(_runs(rows), MOST_RUNS):
        last = rows.filter(run).order_by("rank", "id").values_list("rank", "id")[FRONT : FRONT + 1].first()
        if last is not None:
            rank, id = last
            # The first of these conditions ends the range of the index, the others the rows of its last rank.
            run &= Q(rank__lte=rank) & (Q(rank__lt=rank) | Q(id__lt=id))
        yield run


#: The tables whose jobs are held, with what counts them.
HELD: Mapping[type[AbstractJob], Callable[[str, Q, datetime], CappedCount]] = {
    Job: held_executable,
    ExternalWorkerJob: held_external,
}


def _runs(rows: QuerySet[Job]) -> Iterator[Q]:
    """The conditions of each category and deployment, found from one to the next along the index of acquisition."""
    categories = rows.filter(category__gte="").order_by("category", "deployment_id", "rank", "id")
    values = categories.values_list("category", "deployment_id")
    first = values.first()
    while first is not None:
        category, deployment = first
        yield Q(category=category, deployment_id=deployment)
        following = values.filter(category=category, deployment_id__gt=deployment).first()
        first = following or values.filter(category__gt=category).first()


def _reported(using: str, now: datetime) -> int:
    """How many jobs the living nodes held at their last heartbeats."""
    nodes = ExecutorNode.objects.using(using).filter(lease_expiration_time__gt=now)
    found = nodes.aggregate(busy=Sum("busy_threads"), queued=Sum("queued_jobs"))
    return (found["busy"] or 0) + (found["queued"] or 0)
