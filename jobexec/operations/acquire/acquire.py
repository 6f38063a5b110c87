"""Acquisition: select unlocked jobs and lock them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID

from django.db import connections
from django.db.models import Q

from jobexec import clock
from jobexec.models import Job, SuspendedJob

from ..nodes import cluster_lock
from ..rows.bury_unreadable import UNREADABLE, bury_unreadable
from ..rows.exclusive import give_up_instances, lock_instances
from ..rows.fencing import LOCK_SQL, lock_unchanged, locked
from ..rows.move import move_all
from ..rows.suspension_cover import Suspensions, covered_rows
from ..settle.release import give_back
from ..sql.dialect import dialect
from ..sql.locks import atomic, has_skip_locked, returns_rows
from ..values.acquired_job import AcquiredJob, Acquisition, ServedJobs, in_order
from .candidates import Request, any_job, narrowed, out_of_turn, read_page
from .cursor import AcquisitionCursor, Position
from .statement import Pair, any_free, lock_plain_page

#: After a page that was not plain, the number of pages for which the single statement is not tried.
_NOT_PLAIN = 20


def acquire_jobs(
    using: str,
    owner: str,
    limit: int,
    scope: ServedJobs,
    *,
    lock_time: timedelta,
    strategy: str = "auto",
    force_after: timedelta = timedelta(minutes=1),
    cursor: AcquisitionCursor | None = None,
    ids: Collection[UUID] | None = None,
) -> Acquisition:
    """Lock up to ``limit`` jobs for ``owner``, in the order of ``scope``, and return them (Camunda: AcquireJobsCmd).

    A job can be acquired if it is unlocked, no suspension covers it, ``scope`` serves it and, if it is exclusive, its
    process instance is not locked. Expired locks still count: only recovery clears them, so that a lost run is counted
    once. Jobs that a suspension covers are moved to the suspended table instead.

    ``strategy``: ``skip_locked`` skips rows that other transactions are locking; ``optimistic`` reads without locks and
    then compares and sets the revisions, so of two nodes one wins each row; ``global_lock`` lets one node at a time
    acquire, and takes the lock over after ``force_after``; ``auto`` is the first where the database supports it and the
    second elsewhere. Unreadable rows become dead letters; that call returns only ``found``, and the next one returns
    jobs.

    ``cursor`` is the position of the calling loop; without one each page starts at the head of the order. With ``ids``
    only these jobs and their siblings are considered; see :mod:`~jobexec.operations.acquire.by_ids`.
    """
    if limit < 1:
        return Acquisition()
    request = Request(using, owner, limit, scope, lock_time, cursor or AcquisitionCursor(), ids)
    try:
        if strategy == "global_lock":
            return _acquire_global_lock(request, force_after)
        if strategy == "optimistic":
            return _acquire_optimistic(narrowed(request, None))
        return _acquire(request)
    except UNREADABLE:
        if not bury_unreadable(using, Job, lock_owner=None):
            raise
        return Acquisition(found=limit, in_doubt=locks_plain_first(using, strategy))


def locks_plain_first(using: str, strategy: str) -> bool:
    """Whether one statement, with a commit of its own, locks the plain jobs before any others.

    Some jobs of a page may then be locked although locking the others has failed.
    """
    return strategy in ("auto", "skip_locked") and returns_rows(using)


def _acquire(request: Request) -> Acquisition:
    """Acquire in one statement if the page is plain, otherwise in several with the same result."""
    cursor, position = request.cursor, request.cursor.begin()
    request = narrowed(request, position)
    if not request.pairs:
        cursor.ended((), full=False)
        return Acquisition()
    if request.scope.tenants is not None or request.ids is not None:
        return _acquire_in_several(request, position)
    limit, pairs = request.limit, list(request.pairs)
    if cursor.not_plain:
        cursor.not_plain -= 1
        # Not behind a full page: where most jobs are out of scope, a look may read as much as the page.
        if not cursor.full and any_free(request.using, request.scope, position, pairs) is False:
            cursor.ended((), full=False)
            return Acquisition()
    else:
        jobs, others = lock_plain_page(
            request.using, request.owner, limit, request.scope, request.until, position, pairs=pairs
        )
        if jobs and not others:
            cursor.ended(jobs, full=len(jobs) >= limit)
            return Acquisition(jobs, found=len(jobs))
        if not (others or _any_job(request, position, pairs)):
            cursor.ended(jobs, full=False)
            return Acquisition()
        cursor.not_plain = _NOT_PLAIN
        if jobs:
            return _completed(request, position, jobs)
    return _acquire_in_several(request, position)


def _any_job(request: Request, position: Position | None, pairs: list[Pair]) -> bool:
    """Whether a job could be acquired behind ``position``; checked without a lock and outside a transaction."""
    found = any_free(request.using, request.scope, position, pairs)
    return any_job(request, position) if found is None else found


def _acquire_in_several(request: Request, position: Position | None) -> Acquisition:
    if has_skip_locked(request.using):
        return _acquire_skip_locked(request, position)
    return _acquire_optimistic(request, position)


def _completed(request: Request, position: Position | None, plain: list[AcquiredJob]) -> Acquisition:
    """Fill up a page whose plain jobs are already locked with other jobs."""
    result = Acquisition()
    if len(plain) < request.limit:
        result = _acquire_in_several(replace(request, limit=request.limit - len(plain)), position)
    result.jobs = sorted([*plain, *result.jobs], key=in_order)
    result.found += len(plain)
    return result


def _acquire_skip_locked(request: Request, position: Position | None = None) -> Acquisition:
    using, owner = request.using, request.owner
    with atomic(using):
        page, result = read_page(request, position, lock=True)
        jobs = _without_suspended(using, page, result)
        jobs = _lock_instances(request, jobs, result)
        if jobs:
            _lock(using, [job.id for job in jobs], owner, request.until)
    result.jobs = _raised(jobs)
    return result


def _acquire_optimistic(request: Request, position: Position | None = None) -> Acquisition:
    using, owner = request.using, request.owner
    page, result = read_page(request, position, lock=False)
    if not page:
        return result
    with atomic(using):
        jobs = _without_suspended(using, page, result)
        taken = _compare_and_set(using, owner, jobs, request.until)
        result.lock_failures = len(jobs) - len(taken)
        jobs = [job for job in jobs if job.id in taken]
        ours = _lock_instances(request, jobs, result)
        kept = {job.id for job in ours}  # not the jobs themselves, which would be compared column by column
        give_back(using, [job.id for job in jobs if job.id not in kept])
    result.jobs = _raised(ours)
    return result


def _acquire_global_lock(request: Request, force_after: timedelta) -> Acquisition:
    using, owner = request.using, request.owner
    token = cluster_lock.take(using, owner, force_after)
    if token is None:
        return Acquisition(lock_taken=True)
    try:
        with atomic(using):
            if not cluster_lock.confirm(using, owner, token):
                return Acquisition(lock_taken=True)  # we stalled, and another node has taken over
            # Locked rows are still skipped: operators and execute-now lock rows without the global lock.
            result = _acquire(request)
            cluster_lock.release(using, owner, token)
    except BaseException:
        cluster_lock.release(using, owner, token)
        raise
    return result


def _compare_and_set(using: str, owner: str, jobs: Iterable[AcquiredJob], until: datetime) -> set[UUID]:
    # Two statements, however long the page is. With one for each row, the transaction of a page that has grown with the
    # backoff would take longer than the backoff itself, and nodes would collide even more. Rows are locked in the order
    # of the ids: two nodes with overlapping pages may wait for each other but cannot deadlock.
    read = {job.id: job.revision for job in jobs}
    taken = lock_unchanged(Job.objects.using(using).filter(lock_owner=None).order_by("pk"), read)
    if taken:
        _lock(using, taken, owner, until)
    return taken


def _lock(using: str, ids: Collection[UUID], owner: str, until: datetime) -> None:
    """Set the lock columns of rows that this transaction holds."""
    if not dialect(using).has_lists:
        Job.objects.using(using).filter(pk__in=ids).update(**locked(owner, until))
        return
    connection, spelled = connections[using], dialect(using)
    moment = connection.ops.adapt_datetimefield_value(until)
    with spelled.cursor(connection) as cursor:
        parameters = {"owner": owner, "until": moment, "ids": spelled.id_list(ids)}
        cursor.execute(_LOCK.format(among=spelled.among("ids")), parameters)


_LOCK = f"""
    UPDATE {Job._meta.db_table} SET {LOCK_SQL} WHERE {{among}}"""


def _raised(jobs: list[AcquiredJob]) -> list[AcquiredJob]:
    for job in jobs:
        job.revision += 1
    return jobs


def _without_suspended(using: str, jobs: list[AcquiredJob], result: Acquisition) -> list[AcquiredJob]:
    """Move jobs that a suspension covers. A row that is no longer covered waits for the next page."""
    if not jobs:
        return jobs
    ids = [job.id for job in jobs]
    suspensions = Suspensions.of(using, ids)
    if not (suspensions or any(job.suspend_requested for job in jobs)):
        return jobs
    covered = Q(suspend_requested=True) | suspensions.condition()
    page = Job.objects.using(using).filter(lock_owner=None, pk__in=ids)
    rows = [row for row in page.filter(covered) if suspensions.cover(row)]
    result.suspended = len(move_all(covered_rows(using, rows), SuspendedJob, suspended_at=clock.now(using)))
    left_out = {row.pk for row in rows}
    return [job for job in jobs if job.id not in left_out]


def _lock_instances(request: Request, jobs: list[AcquiredJob], result: Acquisition) -> list[AcquiredJob]:
    """Return the jobs that may run: those without a process instance, or whose lock row we just inserted, in turn.

    A page skips rows that other transactions are locking. If one of these is a preceding sibling, the jobs behind it
    wait for the next page, and an instance of which no job is left is unlocked.
    """
    using, owner = request.using, request.owner
    instances = {job.serial_key for job in jobs} - {""}
    if not instances:
        return jobs
    held = lock_instances(using, owner, instances)
    possible = [job for job in jobs if not job.serial_key or job.serial_key in held]
    result.blocked = len(jobs) - len(possible)
    early = out_of_turn(request, possible)
    if not early:
        return possible
    allowed = [job for job in possible if job.id not in early]
    unused = held - {job.serial_key for job in allowed}
    give_up_instances(using, owner, unused)
    result.lock_failures += len(early)
    return allowed
