"""The end of a run that succeeded: the job is deleted, many in one transaction."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any
from uuid import UUID

from jobexec.models import Job, LogState

from . import history
from .delete_statement import delete_ours
from .exclusive import unlock_instances
from .locking import atomic, delete_rows, lock_rows, returns_rows
from .release import by_owner
from .run import Run, timing
from .work import AcquiredJob


def complete_jobs(using: str, completed: Sequence[tuple[AcquiredJob, Run]], *, keep: Collection[str] = ()) -> set[UUID]:
    """:func:`complete_or_lose`, told the other way round: returns the ids of those that were still ours."""
    lost = complete_or_lose(using, completed, keep)
    return {job.id for job, _ in completed if job.id not in lost}


def complete_or_lose(using: str, completed: Sequence[tuple[AcquiredJob, Run]], keep: Collection[str] = ()) -> set[UUID]:
    """Delete jobs that have succeeded, many in one transaction; returns the ids of those that were no longer ours.

    An outcome counts only if lock owner and revision are those of the acquisition (fencing); what is left out was
    taken over by somebody else, or was settled by an earlier try of the same commit. The process instances ``keep``
    stay locked: the caller knows that their owner has further siblings in hand.
    """
    groups = by_owner([job for job, _ in completed])
    runs = {job.id: run for job, run in completed} if history.wants(LogState.SUCCESSFUL) else {}
    instances = {job.process_instance_id for job, _ in completed if job.process_instance_id and job.exclusive}
    instances = instances.difference(keep)
    if len(groups) == 1 and not instances:
        ((owner, jobs),) = groups.items()
        return _delete(using, owner, jobs, runs)  # one statement commits by itself
    lost: set[UUID] = set()
    with atomic(using):
        for owner, jobs in groups.items():
            lost |= _delete(using, owner, jobs, runs)
            unlock_instances(using, owner, {job.serial_key for job in jobs} & instances)
    return lost


def _delete(using: str, owner: str, jobs: Sequence[AcquiredJob], runs: dict[UUID, Run]) -> set[UUID]:
    """Delete those that are still ours, with a log row for each run in ``runs``; returns the ids of the others."""
    if returns_rows(using):
        return delete_ours(using, owner, jobs, runs)
    with atomic(using):
        ours = _still_ours(using, owner, jobs)
        _write_successes(using, {pk: run for pk, run in runs.items() if pk in ours})
        delete_rows(Job.objects.using(using).filter(pk__in=ours))
    return {job.id for job in jobs} - ours


def _still_ours(using: str, owner: str, jobs: Iterable[AcquiredJob]) -> set[UUID]:
    revisions = {job.id: job.revision for job in jobs}
    rows = lock_rows(Job.objects.using(using).filter(pk__in=revisions, lock_owner=owner).order_by("pk"))
    return {pk for pk, revision in rows.values_list("pk", "revision") if revisions[pk] == revision}


def _write_successes(using: str, runs: dict[UUID, Run]) -> None:
    if runs:
        rows = Job.objects.using(using).filter(pk__in=runs).defer("handler_configuration", "exception_stack")
        history.write(using, LogState.SUCCESSFUL, [_success(row, runs[row.pk]) for row in rows])


def _success(row: Job, run: Run) -> Any:
    return history.entry(row, LogState.SUCCESSFUL, attempt=row.attempts + 1, **timing(row, run))
