"""Select the jobs of an acquisition page: the portable form. Only reads and locks rows, changes nothing."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import connections
from django.db.models import F, Q, QuerySet, Window
from django.db.models.expressions import RawSQL
from django.db.models.functions import RowNumber

from jobexec import clock
from jobexec.models import Job

from ..rows.exclusive import without_locked_instances
from ..sql.dialect import dialect
from ..sql.locks import has_json_rows, lock_rows
from ..sql.serial_key import of_instances
from ..values.acquired_job import AcquiredJob, Acquisition, ServedJobs, columns, from_row, in_order
from ..values.category_turns import Turns
from . import statement_candidates
from .cursor import AcquisitionCursor, Position
from .statement import Pair

#: The assumed number of siblings per process instance when a page is filled up with them.
_PER_INSTANCE = 10
#: The order of siblings, as no index has it: PostgreSQL might otherwise read all jobs of a category, by the index of
#: acquisition, to find those of a process instance.
UNINDEXED = (F("rank") + 0, "id")
#: Up to this number, all (category, deployment) pairs are read; of more, only those that have jobs.
_FEW_PAIRS = 8


@dataclass(frozen=True, slots=True)
class Request:
    """The arguments of one acquisition."""

    using: str
    owner: str
    limit: int
    scope: ServedJobs
    lock_time: timedelta
    cursor: AcquisitionCursor
    #: Acquire only these jobs, whatever their position; None: the first ones.
    ids: Collection[UUID] | None = None
    #: Read only these of the scope's pairs; None: all of them.
    only: Sequence[Pair] | None = None

    @property
    def pairs(self) -> Sequence[Pair]:
        """The (category, deployment) pairs to be read."""
        return self.scope.pairs() if self.only is None else self.only

    @property
    def until(self) -> datetime:
        """The time at which the locks expire."""
        return clock.now(self.using) + self.lock_time


def any_job(request: Request, position: Position | None) -> bool:
    """Whether a job could be acquired behind ``position``; checked without a lock and outside a transaction."""
    return bool(_with_jobs(request, position))


def narrowed(request: Request, position: Position | None) -> Request:
    """Restrict a request with many pairs to those that have acquirable jobs.

    A node serves all deployments that were ever recorded, and few of them have jobs. PostgreSQL expects a whole page
    from each, and the estimated cost would make it compile the statement (JIT).
    """
    if request.ids is not None or len(request.pairs) <= _FEW_PAIRS:
        return request
    return replace(request, only=_with_jobs(request, position if request.scope.category_order == "rank" else None))


def _with_jobs(request: Request, position: Position | None) -> list[Pair]:
    """Return the pairs that have acquirable jobs, with one statement for any number of pairs.

    Each pair is looked up in the acquisition index, by a subquery with an order and a limit, which no database turns
    into a join that reads the whole table.
    """
    connection = connections[request.using]
    if not has_json_rows(request.using):
        return [pair for pair in request.pairs if _run(request, pair, position).exists()]
    run = _run(request, (RawSQL("pair.category", ()), RawSQL("pair.deployment", ())), position)
    look, values = run.values("pk")[:1].query.get_compiler(request.using).as_sql()
    table = dialect(request.using).given("pair", {"category": "text", "deployment": "text"})
    statement = f"SELECT category, deployment FROM {table} WHERE ({look}) IS NOT NULL"
    with connection.cursor() as cursor:
        cursor.execute(statement, (json.dumps(list(request.pairs)), *values))
        return [(category, deployment) for category, deployment in cursor.fetchall()]


def acquirable(using: str, scope: ServedJobs) -> QuerySet[Job]:
    """Return unlocked jobs in this scope whose process instance is not locked, of any deployment and category."""
    return in_scope(without_locked_instances(Job.objects.using(using).filter(lock_owner=None)), scope)


def in_scope(jobs: QuerySet[Job], scope: ServedJobs) -> QuerySet[Job]:
    """Leave out jobs whose priority or tenant the scope does not take."""
    if scope.priority_min is not None:
        jobs = jobs.filter(priority__gte=scope.priority_min)
    if scope.priority_max is not None:
        jobs = jobs.filter(priority__lte=scope.priority_max)
    full = scope.tenants.full() if scope.tenants is not None else []
    return jobs.exclude(tenant_id__in=full) if full else jobs


def read_page(request: Request, position: Position | None, *, lock: bool) -> tuple[list[AcquiredJob], Acquisition]:
    """Return the candidates with their siblings, and the counts of this acquisition.

    Reads at most twice as many candidates as the last page needed: those that do not fit are read and locked in vain.
    """
    cursor, limit = request.cursor, request.limit
    most = min(limit, 2 * cursor.heads) if cursor.heads else limit
    jobs = _candidates(replace(request, limit=most), position, lock=lock)
    page, count = _with_siblings(request, jobs, lock=lock)
    full = len(jobs) >= most
    cursor.ended(jobs[:count], full=full)
    cursor.heads = count if len(page) >= limit > count else None
    if request.scope.tenants is not None:
        page = _within_tenants(request, page)
    return page, Acquisition(found=max(len(jobs), limit if full else len(page)))


def _within_tenants(request: Request, page: list[AcquiredJob]) -> list[AcquiredJob]:
    """Drop jobs above a tenant's limit. The next page excludes the tenant if its limit is reached by then."""
    assert request.scope.tenants is not None
    fitting = request.scope.tenants.fitting(page)
    if len(fitting) < len(page):
        request.cursor.heads = max(1, len(fitting))
    return fitting


def _candidates(request: Request, position: Position | None, *, lock: bool) -> list[AcquiredJob]:
    """Return the first jobs in the order of the scope, by rank in a category; behind ``position`` if ranks decide."""
    scope, limit = request.scope, request.limit
    if request.ids is not None:
        return _those(request, lock)
    if scope.category_order == "rank":
        return _first(request, limit, request.pairs, position, lock)
    pairs = {name: [pair for pair in request.pairs if pair[0] == name] for name in scope.categories}
    if scope.category_order == "strict":
        found: list[AcquiredJob] = []
        for category in scope.categories:
            if len(found) < limit:
                found += _first(request, limit - len(found), pairs[category], None, lock)
        return found
    turns = scope.turns or Turns(dict.fromkeys(scope.categories, 1))
    # A whole page of each category: any of them may be the only one that has jobs.
    pages = {name: _first(request, limit, pairs[name], None, lock) for name in scope.categories}
    return turns.merge(pages, limit)


def _those(request: Request, lock: bool) -> list[AcquiredJob]:
    """Return those of the given jobs that can be acquired, by rank."""
    page = named(request.using, request.scope, request.ids or ())
    if lock:
        page = lock_rows(page, skip_locked=True)
    rows = page.order_by("rank", "id").values_list(*columns(request.scope.wide))[: request.limit]
    return [from_row(row, request.using, request.owner) for row in rows]


def named(using: str, scope: ServedJobs, ids: Collection[UUID]) -> QuerySet[Job]:
    """Return those of these jobs that can be acquired in this scope."""
    jobs = acquirable(using, scope).filter(category__in=scope.categories)
    return jobs.filter(deployment_id__in=("", *scope.deployments), pk__in=ids)


def _first(
    request: Request, limit: int, pairs: Sequence[Pair], position: Position | None, lock: bool
) -> list[AcquiredJob]:
    """Return the first jobs in rank order: one short run of the acquisition index per (category, deployment) pair."""
    if not pairs:
        return []
    using, owner, scope = request.using, request.owner, request.scope
    if has_statements(request):
        return statement_candidates.first(using, owner, limit, scope, pairs, position, lock=lock)
    found: list[AcquiredJob] = []
    for pair in pairs:
        page = _run(request, pair, position)
        if lock:
            page = lock_rows(page, skip_locked=True)
        found += [from_row(row, using, owner) for row in page.values_list(*columns(scope.wide))[:limit]]
    found.sort(key=in_order)
    return found[:limit]


def has_statements(request: Request) -> bool:
    """Whether the queries of a page are written as SQL, for its database and its scope."""
    return request.scope.tenants is None and dialect(request.using).has_lists


def _run(request: Request, pair: tuple[Any, Any], position: Position | None) -> QuerySet[Job]:
    category, deployment = pair
    jobs = acquirable(request.using, request.scope).filter(category=category, deployment_id=deployment)
    if position is not None:
        jobs = jobs.filter(rank__gte=position.rank).exclude(rank=position.rank, id__lte=position.id)
    return jobs.order_by("rank", "id")


def _with_siblings(request: Request, jobs: list[AcquiredJob], *, lock: bool) -> tuple[list[AcquiredJob], int]:
    """Return the page with the exclusive siblings of its jobs, and the number of jobs used for it.

    This way a process instance is locked once for as many of its jobs as fit on a page, instead of once for each. Jobs
    that do not fit are not locked this time. Rows that other transactions are locking are skipped.
    """
    instances = list(dict.fromkeys(job.serial_key for job in jobs if job.serial_key))
    if not instances:
        return jobs, len(jobs)
    siblings = _siblings(request, instances[: max(1, request.limit // _PER_INSTANCE)], lock)
    page: dict[UUID, AcquiredJob] = {}
    count = 0
    for job in jobs:
        count += 1
        # Siblings go before the job itself: behind a cursor position, or with category orders, some may precede it.
        page |= {sibling.id: sibling for sibling in siblings.pop(job.serial_key, [])}
        page.setdefault(job.id, job)
        if len(page) >= request.limit:
            break
    return list(page.values())[: request.limit], count


def _siblings(request: Request, instances: Collection[str], lock: bool) -> dict[str, list[AcquiredJob]]:
    """Return the unlocked jobs of these process instances by rank; with ``lock``, locked for the transaction."""
    found: dict[str, list[AcquiredJob]] = {}
    for job in _all_siblings(request, instances, lock):
        found.setdefault(job.serial_key, []).append(job)
    return found


def _all_siblings(request: Request, instances: Collection[str], lock: bool) -> list[AcquiredJob]:
    using, owner, scope = request.using, request.owner, request.scope
    if has_statements(request):
        return statement_candidates.siblings(using, owner, request.limit, scope, instances, lock=lock)
    free = in_scope(Job.objects.using(using).filter(lock_owner=None), scope)
    rows = exclusive_of(free, scope, instances).order_by(*UNINDEXED)
    if lock:
        rows = lock_rows(rows, skip_locked=True)
    return [from_row(row, using, owner) for row in rows.values_list(*columns(scope.wide))[: request.limit]]


def exclusive_of(jobs: QuerySet[Job], scope: ServedJobs, instances: Collection[str]) -> QuerySet[Job]:
    """Restrict jobs to the exclusive ones of these process instances that the scope serves."""
    jobs = of_instances(jobs, instances)
    return jobs.filter(category__in=scope.categories, deployment_id__in=("", *scope.deployments))


def out_of_turn(request: Request, page: Collection[AcquiredJob]) -> set[UUID]:
    """Return the exclusive jobs of a page that follow a sibling that is not on it, even one with a locked row.

    Called once we hold the lock rows of their process instances, so that no sibling can start meanwhile. The order is
    by rank within this scope: siblings that no node with this scope ever takes do not block others.
    """
    ours = [job for job in page if job.serial_key]
    if not ours:
        return set()
    using, owner, scope, keys = request.using, request.owner, request.scope, {job.serial_key for job in ours}
    find = statement_candidates.first_left if has_statements(request) else _first_left
    left = find(using, owner, scope, keys, [job.id for job in ours])
    return {job.id for job in ours if left and job.serial_key in left and in_order(job) > left[job.serial_key]}


def _first_left(
    using: str, owner: str, scope: ServedJobs, keys: Collection[str], page: Collection[UUID]
) -> Mapping[str, tuple[int, int]]:
    """The place in rank order of the first sibling that is not on the page, for each process instance that has one."""
    free_or_ours = Job.objects.using(using).filter(Q(lock_owner=None) | Q(lock_owner=owner))
    place = Window(RowNumber(), partition_by=F("key"), order_by=UNINDEXED)
    rows = exclusive_of(in_scope(free_or_ours, scope), scope, keys).exclude(pk__in=page).annotate(place=place)
    return {key: (rank, id.int) for key, rank, id in rows.filter(place=1).values_list(F("key"), "rank", "id")}
