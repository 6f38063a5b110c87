"""Acquisition: pick unlocked jobs and lock them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import connections
from django.db.models import F, Q, QuerySet

from jobexec import clock
from jobexec.models import Job, SuspendedJob

from . import global_lock
from .categories import Turns
from .exclusive import lock_instances, without_locked_instances
from .id_list import among, as_parameter
from .locking import atomic, has_skip_locked, lock_rows, returns_rows
from .move import move_all
from .one_statement import lock_plain_page
from .release import give_back
from .suspensions import Suspensions, covered_rows
from .unreadable import UNREADABLE, bury_unreadable
from .walk import Position, Walk
from .work import AcquiredJob, Acquisition, Scope, columns, from_row

#: So many pages are not tried in one statement after one that was not plain.
_NOT_PLAIN = 20
#: With so many siblings each process instance is reckoned, when a page is filled up with them.
_PER_INSTANCE = 10


def acquire_jobs(
    using: str,
    owner: str,
    limit: int,
    scope: Scope,
    *,
    lock_time: timedelta,
    strategy: str = "auto",
    force_after: timedelta = timedelta(minutes=1),
    walk: Walk | None = None,
) -> Acquisition:
    """Lock up to ``limit`` jobs for ``owner``, in the order of ``scope``, and return them (Camunda: AcquireJobsCmd).

    A job can be acquired if nobody holds it, no suspension covers it, ``scope`` serves it and, if it is exclusive,
    its process instance is not locked. Expired locks are not looked at: recovery alone clears them, so that a lost
    run is counted once. Jobs that a suspension covers are moved to the suspended table instead.

    ``strategy``: ``skip_locked`` passes over rows that others are just locking; ``optimistic`` reads without locks
    and then compares and sets the revisions, so of two nodes one wins each row; ``global_lock`` lets one
    node at a time acquire, and takes the lock over after ``force_after``; ``auto`` is the first where the database has
    it and the second elsewhere. Rows that cannot be read become dead letters, and the call brings nothing but
    ``found``: the next one will.

    ``walk`` is the position of the loop that asks; without one each page starts at the head of the order.
    """
    if limit < 1:
        return Acquisition()
    request = Request(using, owner, limit, scope, lock_time, walk or Walk())
    try:
        if strategy == "global_lock":
            return _acquire_global_lock(request, force_after)
        if strategy == "optimistic":
            return _acquire_optimistic(request)
        return _acquire(request)
    except UNREADABLE:
        if not bury_unreadable(using, Job, lock_owner=None):
            raise
        return Acquisition(found=limit)


def _in_order(job: AcquiredJob) -> tuple[int, int]:
    return job.rank, job.id.int


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked of one acquisition."""

    using: str
    owner: str
    limit: int
    scope: Scope
    lock_time: timedelta
    walk: Walk

    @property
    def until(self) -> datetime:
        """When the locks expire."""
        return clock.now(self.using) + self.lock_time


def _acquire(request: Request) -> Acquisition:
    """In one statement if the page is plain, else in several that have the same meaning."""
    walk, position = request.walk, request.walk.begin()
    if walk.not_plain:
        walk.not_plain -= 1
    else:
        limit = request.limit
        jobs, others = lock_plain_page(request.using, request.owner, limit, request.scope, request.until, position)
        if jobs and not others:
            walk.ended(jobs, full=len(jobs) >= limit)
            return Acquisition(jobs, found=len(jobs))
        if not (others or _any(request, position)):
            walk.ended(jobs, full=False)
            return Acquisition()
        walk.not_plain = _NOT_PLAIN
        if jobs:
            return _completed(request, position, jobs)
    return _acquire_in_several(request, position)


def _acquire_in_several(request: Request, position: Position | None) -> Acquisition:
    if has_skip_locked(request.using):
        return _acquire_skip_locked(request, position)
    return _acquire_optimistic(request, position)


def _completed(request: Request, position: Position | None, plain: list[AcquiredJob]) -> Acquisition:
    """The page whose plain jobs are locked already, with as many others as have their place on it."""
    result = Acquisition()
    if len(plain) < request.limit:
        result = _acquire_in_several(replace(request, limit=request.limit - len(plain)), position)
    result.jobs = sorted([*plain, *result.jobs], key=_in_order)
    result.found += len(plain)
    return result


def _any(request: Request, position: Position | None) -> bool:
    """Whether anything could be acquired there; asked without a lock and outside of a transaction."""
    return any(_run(request, pair, position).exists() for pair in request.scope.pairs())


def _acquire_skip_locked(request: Request, position: Position | None = None) -> Acquisition:
    using, owner = request.using, request.owner
    with atomic(using):
        page, result = _page(request, position, lock=True)
        jobs = _without_suspended(using, page, result)
        jobs = _lock_instances(using, owner, jobs, result)
        if jobs:
            _lock(using, [job.id for job in jobs], owner, request.until)
    result.jobs = _raised(jobs)
    return result


def _acquire_optimistic(request: Request, position: Position | None = None) -> Acquisition:
    using, owner = request.using, request.owner
    page, result = _page(request, position, lock=False)
    if not page:
        return result
    with atomic(using):
        jobs = _without_suspended(using, page, result)
        taken = _compare_and_set(using, owner, jobs, request.until)
        result.lock_failures = len(jobs) - len(taken)
        jobs = [job for job in jobs if job.id in taken]
        ours = _lock_instances(using, owner, jobs, result)
        give_back(using, [job.id for job in jobs if job not in ours])
    result.jobs = _raised(ours)
    return result


def _acquire_global_lock(request: Request, force_after: timedelta) -> Acquisition:
    using, owner = request.using, request.owner
    token = global_lock.take(using, owner, force_after)
    if token is None:
        return Acquisition(lock_taken=True)
    try:
        with atomic(using):
            if not global_lock.confirm(using, owner, token):
                return Acquisition(lock_taken=True)  # we stalled, and another has taken over
            # Rows are passed over all the same: people and execute-now lock them without the global lock.
            result = _acquire(request)
            global_lock.release(using, owner, token)
    except BaseException:
        global_lock.release(using, owner, token)
        raise
    return result


def _compare_and_set(using: str, owner: str, jobs: Iterable[AcquiredJob], until: datetime) -> set[UUID]:
    # Two statements, however long the page is. One for each row would make the transaction of a page that has grown
    # with the back-off longer than the back-off itself, and then nodes collide all the more. Locked in the order of the
    # ids: two nodes with overlapping pages wait for each other at most.
    read = {job.id: job.revision for job in jobs}
    rows = lock_rows(Job.objects.using(using).filter(pk__in=read, lock_owner=None).order_by("pk"))
    taken = {pk for pk, revision in rows.values_list("pk", "revision") if read[pk] == revision}
    if taken:
        _lock(using, taken, owner, until)
    return taken


def _lock(using: str, ids: Collection[UUID], owner: str, until: datetime) -> None:
    """Lock rows that this transaction holds."""
    if not returns_rows(using):
        Job.objects.using(using).filter(pk__in=ids).update(**_lock_columns(owner, until))
        return
    connection = connections[using]
    parameters = {
        "owner": owner,
        "until": connection.ops.adapt_datetimefield_value(until),
        "ids": as_parameter(connection.vendor, ids),
    }
    with connection.cursor() as cursor:
        cursor.execute(_LOCK.format(among=among(connection.vendor, "ids")), parameters)


_LOCK = f"""
    UPDATE {Job._meta.db_table}
    SET lock_owner = %(owner)s, lock_expiration_time = %(until)s, revision = revision + 1 WHERE {{among}}"""


def _lock_columns(owner: str, until: datetime) -> dict[str, Any]:
    return {"lock_owner": owner, "lock_expiration_time": until, "revision": F("revision") + 1}


def _raised(jobs: list[AcquiredJob]) -> list[AcquiredJob]:
    for job in jobs:
        job.revision += 1
    return jobs


def acquirable(using: str, scope: Scope) -> QuerySet[Job]:
    """Unlocked jobs in this scope whose process instance nobody holds, whatever their deployment and category."""
    jobs = without_locked_instances(Job.objects.using(using).filter(lock_owner=None))
    if scope.priority_min is not None:
        jobs = jobs.filter(priority__gte=scope.priority_min)
    if scope.priority_max is not None:
        jobs = jobs.filter(priority__lte=scope.priority_max)
    return jobs


def _page(request: Request, position: Position | None, *, lock: bool) -> tuple[list[AcquiredJob], Acquisition]:
    """The candidates with their siblings, and what was found.

    Not more candidates than the last page needed, twice over: each that falls off the end was read and locked in vain.
    """
    walk, limit = request.walk, request.limit
    most = min(limit, 2 * walk.heads) if walk.heads else limit
    jobs = _candidates(replace(request, limit=most), position, lock=lock)
    page, count = _with_siblings(request, jobs, lock=lock)
    full = len(jobs) >= most
    walk.ended(jobs[:count], full=full)
    walk.heads = count if len(page) >= limit > count else None
    return page, Acquisition(found=max(len(jobs), limit if full else len(page)))


def _candidates(request: Request, position: Position | None, *, lock: bool) -> list[AcquiredJob]:
    """The first jobs in the order of the scope, by rank within a category; behind ``position``, if ranks decide."""
    scope, limit = request.scope, request.limit
    if scope.category_order == "rank":
        return _first(request, limit, scope.pairs(), position, lock)
    if scope.category_order == "strict":
        found: list[AcquiredJob] = []
        for category in scope.categories:
            if len(found) < limit:
                found += _first(request, limit - len(found), scope.pairs_of(category), None, lock)
        return found
    turns = scope.turns or Turns(dict.fromkeys(scope.categories, 1))
    # A whole page of each: any of them may be the only one that has jobs.
    pages = {name: _first(request, limit, scope.pairs_of(name), None, lock) for name in scope.categories}
    return turns.merge(pages, limit)


def _first(
    request: Request, limit: int, pairs: Iterable[tuple[str, str]], position: Position | None, lock: bool
) -> list[AcquiredJob]:
    """The first jobs in rank order: one short run of the acquisition index per (category, deployment) pair."""
    found: list[AcquiredJob] = []
    for pair in pairs:
        page = _run(request, pair, position)
        if lock:
            page = lock_rows(page, skip_locked=True)
        rows = page.values_list(*columns())[:limit]
        found += [from_row(row, request.using, request.owner) for row in rows]
    found.sort(key=_in_order)
    return found[:limit]


def _run(request: Request, pair: tuple[str, str], position: Position | None) -> QuerySet[Job]:
    category, deployment = pair
    jobs = acquirable(request.using, request.scope).filter(category=category, deployment_id=deployment)
    if position is not None:
        jobs = jobs.filter(rank__gte=position.rank).exclude(rank=position.rank, id__lte=position.id)
    return jobs.order_by("rank", "id")


def _with_siblings(request: Request, jobs: list[AcquiredJob], *, lock: bool) -> tuple[list[AcquiredJob], int]:
    """The page with the exclusive siblings of its jobs, and how many jobs were gone through for it.

    So a process instance is locked once for as many of its jobs as a page holds, and not for each of them anew. What
    falls off the end of the page is not locked this time. Rows that others are just locking are passed over.
    """
    instances = list(dict.fromkeys(job.serial_key for job in jobs if job.serial_key))
    if not instances:
        return jobs, len(jobs)
    siblings = _siblings(request, instances[: max(1, request.limit // _PER_INSTANCE)], lock)
    page: dict[UUID, AcquiredJob] = {}
    count = 0
    for job in jobs:
        count += 1
        # Before the job itself: where the walk goes on, or categories decide, some may stand in front of it.
        page |= {sibling.id: sibling for sibling in siblings.pop(job.serial_key, [])}
        page.setdefault(job.id, job)
        if len(page) >= request.limit:
            break
    return list(page.values())[: request.limit], count


def _siblings(request: Request, instances: Collection[str], lock: bool) -> dict[str, list[AcquiredJob]]:
    """What could be acquired of these process instances, by rank; with ``lock`` until the transaction ends."""
    scope, found = request.scope, dict[str, list[AcquiredJob]]()
    rows = acquirable(request.using, scope).filter(~Q(process_instance_id=""), exclusive=True)
    rows = rows.filter(category__in=scope.categories, deployment_id__in=("", *scope.deployments))
    rows = rows.filter(process_instance_id__in=instances).order_by("rank", "id")
    if lock:
        rows = lock_rows(rows, skip_locked=True)
    for row in rows.values_list(*columns())[: request.limit]:
        job = from_row(row, request.using, request.owner)
        found.setdefault(job.process_instance_id, []).append(job)
    return found


def _without_suspended(using: str, jobs: list[AcquiredJob], result: Acquisition) -> list[AcquiredJob]:
    """Move what a suspension covers out of the way. A row that was covered and no longer is waits for the next page."""
    if not jobs:
        return jobs
    ids = [job.id for job in jobs]
    suspensions = Suspensions.of(using, ids)
    if not (suspensions or any(job.suspend_requested for job in jobs)):
        return jobs
    covered = Q(suspend_requested=True) | suspensions.condition()
    page = Job.objects.using(using).filter(lock_owner=None, pk__in=ids)
    rows = list(page.filter(covered))
    result.suspended = len(move_all(covered_rows(using, rows), SuspendedJob, suspended_at=clock.now(using)))
    left_out = {row.pk for row in rows}
    return [job for job in jobs if job.id not in left_out]


def _lock_instances(using: str, owner: str, jobs: list[AcquiredJob], result: Acquisition) -> list[AcquiredJob]:
    """Those jobs that may run: no process instance, or one whose lock row we just inserted."""
    instances = {job.serial_key for job in jobs} - {""}
    held = lock_instances(using, owner, instances)
    allowed = [job for job in jobs if not job.serial_key or job.serial_key in held]
    result.blocked = len(jobs) - len(allowed)
    return allowed
