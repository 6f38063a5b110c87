"""Complete successful runs: delete their jobs, many in one transaction."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any
from uuid import UUID

from django.db import connections

from jobexec.models import Job, LogState, ResultStatus

from ..history import job_log
from ..history.task_rows import End, as_written, end_of, write_ends
from ..rows import tallies
from ..rows.exclusive import unlock_instances
from ..rows.fencing import lock_unchanged
from ..sql.delete import MOST_LISTED, delete_rows
from ..sql.dialect import dialect
from ..sql.locks import atomic, returns_rows
from ..values.acquired_job import AcquiredJob
from ..values.run import Result, Run, timing
from . import result_statement
from .complete_statement import (
    NotOurs,
    can_log_runs,
    delete_all,
    delete_one,
    delete_ours,
    lock_ours,
    log_runs,
)
from .release import by_owner


def complete_jobs(using: str, completed: Sequence[tuple[AcquiredJob, Run]], *, keep: Collection[str] = ()) -> set[UUID]:
    """Call :func:`complete_or_lose`, but return the ids of those that were still ours."""
    lost = complete_or_lose(using, completed, keep)
    return {job.id for job, _ in completed if job.id not in lost}


#: Called with the permits that the completed jobs return, by resource, before the commit.
Freed = Callable[[Mapping[str, int]], object]


def complete_or_lose(
    using: str, completed: Sequence[tuple[AcquiredJob, Run]], keep: Collection[str] = (), freed: Freed | None = None
) -> set[UUID]:
    """Delete successful jobs, many in one transaction; return the ids of those that were no longer ours.

    An outcome counts only if lock owner and revision are those of the acquisition (fencing); other jobs were taken over
    by another executor or settled by an earlier attempt of the same commit. The process instances ``keep`` stay locked:
    the caller knows that their owner holds further siblings.
    """
    if freed is None:
        return _complete(using, completed, keep, {})
    with atomic(using):
        lost = _complete(using, completed, keep, {})
        names = (job.resource for job, _ in completed if job.id not in lost)
        freed(Counter(name for name in names if name is not None))
    return lost


def complete_with_results(
    using: str, completed: Sequence[tuple[AcquiredJob, Run, Result]], keep: Collection[str] = ()
) -> set[UUID]:
    """Call :func:`complete_or_lose` for tasks, storing their results in the same transaction.

    Nothing is stored for jobs that are no longer ours, so a commit in doubt may be retried. Raises ValueError for a
    result that is not JSON.
    """
    pieces = list(_pieces(completed))
    if len(pieces) == 1:
        return _complete_piece(using, pieces[0], keep)
    with atomic(using):
        return {pk for piece in pieces for pk in _complete_piece(using, piece, keep)}


_LETTERS = 2_000_000  # characters in the results of one statement: MariaDB refuses statements of 16 megabytes


def _pieces(completed: Sequence[tuple[AcquiredJob, Run, Result]]) -> Iterator[list[tuple[AcquiredJob, Run, Result]]]:
    piece: list[tuple[AcquiredJob, Run, Result]] = []
    letters = 0
    for each in completed:
        letters += len(each[2].text)
        if piece and letters > _LETTERS:
            yield piece
            piece, letters = [], len(each[2].text)
        piece.append(each)
    if piece:
        yield piece


def _complete_piece(using: str, piece: Sequence[tuple[AcquiredJob, Run, Result]], keep: Collection[str]) -> set[UUID]:
    results = {job.id: result for job, _, result in piece}
    return _complete(using, [(job, run) for job, run, _ in piece], keep, results)


def _complete(
    using: str, completed: Sequence[tuple[AcquiredJob, Run]], keep: Collection[str], results: Mapping[UUID, Result]
) -> set[UUID]:
    ended = [job for job, _ in completed]
    groups = by_owner(ended)
    runs = {job.id: run for job, run in completed} if results or job_log.wants(LogState.SUCCESSFUL) else {}
    instances = {job.serial_key for job, _ in completed}.difference(keep, {""})
    if len(groups) == 1 and not instances:
        ((owner, jobs),) = groups.items()
        return _delete(using, owner, jobs, runs, results)  # one statement commits by itself
    if not (runs or tallies.batches_of(ended)) and _may_roll_back(using, ended):
        with suppress(NotOurs), atomic(using):
            for owner, jobs in groups.items():
                delete_all(using, owner, jobs)
                unlock_instances(using, owner, {job.serial_key for job in jobs} & instances)
            return set()
    lost: set[UUID] = set()
    with atomic(using):
        for owner, jobs in groups.items():
            lost |= _delete(using, owner, jobs, runs, results)
            unlock_instances(using, owner, {job.serial_key for job in jobs} & instances)
    return lost


def _delete(
    using: str, owner: str, jobs: Sequence[AcquiredJob], runs: dict[UUID, Run], results: Mapping[UUID, Result]
) -> set[UUID]:
    """Delete the jobs that are still ours, with a log row for each run in ``runs``; return the ids of the others.

    With ``results``, their return values are stored; each job must then have a run and a result.
    """
    if not tallies.batches_of(jobs):
        return _delete_plain(using, owner, jobs, runs, results)
    if dialect(using).writes_in_with:
        return _delete_plain(using, owner, jobs, runs, results, counted=True)
    with atomic(using):
        lost = _delete_plain(using, owner, jobs, runs, results)
        tallies.count(using, tallies.batches_of([job for job in jobs if job.id not in lost]), completed=1)
    return lost


def _delete_plain(
    using: str,
    owner: str,
    jobs: Sequence[AcquiredJob],
    runs: dict[UUID, Run],
    results: Mapping[UUID, Result],
    *,
    counted: bool = False,
) -> set[UUID]:
    """``counted``: the statement also counts the children of batches."""
    if results:
        return _delete_and_keep(using, owner, jobs, runs, results, counted)
    if len(jobs) == 1 and not (runs or counted):
        return set() if delete_one(using, owner, jobs[0]) else {jobs[0].id}
    if returns_rows(using):
        return delete_ours(using, owner, jobs, runs, counted=counted)
    if not runs and _may_roll_back(using, jobs):
        with suppress(NotOurs), atomic(using):
            delete_all(using, owner, jobs)
            return set()
    with atomic(using):
        ours = _still_ours(using, owner, jobs)
        if runs:
            _write_successes(using, owner, [job for job in jobs if job.id in ours], runs)
        delete_rows(Job.objects.using(using).filter(pk__in=ours))
    return {job.id for job in jobs} - ours


def _may_roll_back(using: str, jobs: Sequence[AcquiredJob]) -> bool:
    """Whether these jobs are first deleted as if all were ours, where the database does not say which it deletes.

    A transaction of the caller, which is always open without autocommit, would be rolled back as a whole.
    """
    connection = connections[using]
    if returns_rows(using) or connection.in_atomic_block or not connection.get_autocommit():
        return False
    return len(jobs) <= MOST_LISTED and all(job.revision == jobs[0].revision for job in jobs)


def _delete_and_keep(
    using: str,
    owner: str,
    jobs: Sequence[AcquiredJob],
    runs: Mapping[UUID, Run],
    results: Mapping[UUID, Result],
    counted: bool,
) -> set[UUID]:
    if result_statement.is_possible(using):
        told = {job.id: runs[job.id] for job in jobs}
        log = job_log.wants(LogState.SUCCESSFUL)
        return result_statement.delete_and_keep(using, owner, jobs, told, results, log, counted=counted)
    with atomic(using):
        ours = _still_ours(using, owner, jobs)
        if job_log.wants(LogState.SUCCESSFUL):
            _write_successes(using, owner, [job for job in jobs if job.id in ours], runs)
        tasks = Job.objects.using(using).filter(pk__in=ours).exclude(task_backend="")
        write_ends(using, list(as_written(tasks)), {pk: _end(runs[pk], results[pk]) for pk in ours})
        delete_rows(Job.objects.using(using).filter(pk__in=ours))
    return {job.id for job in jobs} - ours


def _end(run: Run, result: Result) -> End:
    return End(ResultStatus.SUCCESSFUL, end_of(run), run, (), json.loads(result.text), result.keep_for)


def _still_ours(using: str, owner: str, jobs: Iterable[AcquiredJob]) -> set[UUID]:
    if dialect(using).has_lists:
        return lock_ours(using, owner, jobs)
    rows = Job.objects.using(using).filter(lock_owner=owner).order_by("pk")
    return lock_unchanged(rows, {job.id: job.revision for job in jobs})


def _write_successes(using: str, owner: str, ours: Sequence[AcquiredJob], runs: Mapping[UUID, Run]) -> None:
    if can_log_runs(using):
        log_runs(using, owner, ours, runs)
        return
    rows = Job.objects.using(using).filter(pk__in=[job.id for job in ours])
    loaded = rows.defer("handler_configuration", "exception_stack")
    job_log.write(using, LogState.SUCCESSFUL, [_success(row, runs[row.pk]) for row in loaded])


def _success(row: Job, run: Run) -> Any:
    return job_log.entry(row, LogState.SUCCESSFUL, attempt=row.attempts + 1, **timing(row, run))
