"""Settle failed runs: their rows move to the timers, the suspended jobs or the dead letters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias
from uuid import UUID

from jobexec import clock
from jobexec.exceptions import JobExpired
from jobexec.models import AbstractJob, DeadLetterJob, Job, JobLog, LogState, SuspendedJob, TimerJob

from ..history import job_log
from ..history.task_attempts import is_task, keep_date, write_cancelled, write_failures
from ..rows.exclusive import unlock_instances
from ..rows.move import move_all
from ..rows.remove import remove_cancelled
from ..rows.suspension_cover import covered_rows
from ..sql.dialect import dialect
from ..sql.errors import shortened, storable
from ..sql.locks import atomic, lock_rows
from ..values.acquired_job import AcquiredJob
from ..values.failure import MESSAGE_LENGTH, STACK_LENGTH, Failure, fingerprint_of
from ..values.run import Run, timing
from . import fail_statement
from .fail_statement import Changes, Departure
from .release import by_owner
from .verdict import decide

LETTERS = 2_000_000  # characters in the stack traces of one statement


#: A job whose run did not succeed, and whose row the caller has locked.
Ended: TypeAlias = tuple[Job, Failure, Run]


def fail_job(using: str, job: AcquiredJob, failure: Failure, run: Run) -> AbstractJob | None:
    """Record one failed run; see :func:`fail_jobs`."""
    return fail_jobs(using, [(job, failure, run)])[0]


def fail_jobs(using: str, failed: Sequence[tuple[AcquiredJob, Failure, Run]]) -> list[AbstractJob | None]:
    """Record failed runs in one transaction and move the jobs to the timers, the suspended jobs or the dead letters.

    Returns the row of each job in its new table (the Job row itself if it is gone, as it was cancelled or its failure
    is handled), or None if it was no longer ours. The lock of a process instance is released with its last sibling: a
    failed job that waits for its retry does not block the others.
    """
    with atomic(using):
        rows = _lock_ours(using, [job for job, _, _ in failed])
        # pop() because only the first of two outcomes of the same acquisition counts.
        found = [rows.pop((job.id, job.lock_owner, job.revision), None) for job, _, _ in failed]
        ours = [(row, *each) for row, each in zip(found, failed, strict=True) if row]
        moved: dict[UUID, AbstractJob] = {}
        for piece in _pieces([(row, failure, run) for row, _, failure, run in ours]):
            moved |= settle_failures(using, piece)
        ended = by_owner(job for _, job, failure, _ in ours if not failure.keeps_instance)
        for owner, jobs in ended.items():
            unlock_instances(using, owner, {job.serial_key for job in jobs} - {""})
    return [moved.get(row.id) if row else None for row in found]


def _lock_ours(using: str, jobs: Sequence[AcquiredJob]) -> dict[tuple[UUID, str | None, int], Job]:
    """Lock the rows of these jobs that their owners still hold, in the order of their ids."""
    listed = dialect(using).with_ids({job.id for job in jobs})
    held = lock_rows(Job.objects.using(using).filter(listed, lock_owner__in=set(by_owner(jobs))).order_by("pk"))
    rows = fail_statement.load(held) if fail_statement.is_possible(using) else held
    return {(row.id, row.lock_owner, row.revision): row for row in rows}


def _pieces(ended: Sequence[Ended]) -> Iterator[list[Ended]]:
    """Yield groups whose stack traces fit into a statement: MariaDB refuses statements of 16 megabytes."""
    piece: list[Ended] = []
    letters = 0
    for each in ended:
        letters += min(STACK_LENGTH, len(each[1].stack))
        if piece and letters > LETTERS:
            yield piece
            piece, letters = [], min(STACK_LENGTH, len(each[1].stack))
        piece.append(each)
    if piece:
        yield piece


def settle_failures(using: str, ended: Sequence[Ended]) -> dict[UUID, AbstractJob]:
    """Move rows that the caller has locked to the tables that their failures require, and write the log.

    Returns the rows in their new tables by id. A job that was cancelled during its run is removed, however it
    ended, and so is one whose failure is handled.
    """
    cancelled = [each for each in ended if each[1].kind == "cancelled" or each[0].cancel_requested]
    if cancelled:
        _remove_cancelled(using, cancelled)
    gone: dict[UUID, AbstractJob] = {row.id: row for row, _, _ in cancelled}
    handled = [each for each in ended if each[1].kind == "handled" and each[0].id not in gone]
    if handled:
        _remove_handled(using, handled)
        gone |= {row.id: row for row, _, _ in handled}
    going_on = [each for each in ended if each[0].id not in gone]
    moved = _move_on(using, going_on) if going_on else {}
    return gone | moved


def _remove_cancelled(using: str, ended: Sequence[Ended]) -> None:
    job_log.write(using, LogState.CANCELLED, [_cancellation(*each) for each in ended])
    write_cancelled(using, [each for each in ended if is_task(each[0])])
    remove_cancelled(using, [row for row, _, _ in ended])


def _cancellation(row: Job, failure: Failure, run: Run) -> JobLog:
    says = failure.kind != "cancelled" or isinstance(failure.error, JobExpired)
    message = storable(failure.message)[:MESSAGE_LENGTH] if says else ""
    values = {"attempt": row.attempts + 1, "exception_message": message, **timing(row, run)}
    return job_log.entry(row, LogState.CANCELLED, **values)


def _remove_handled(using: str, ended: Sequence[Ended]) -> None:
    job_log.write(using, LogState.FAILED, [_handled(*each) for each in ended])
    remove_cancelled(using, [row for row, _, _ in ended])


def _handled(row: Job, failure: Failure, run: Run) -> JobLog:
    values: dict[str, Any] = {
        "retries": 0,
        "attempt": row.attempts + 1,
        "exception_message": storable(failure.message)[:MESSAGE_LENGTH],
        "exception_stack": shortened(storable(failure.stack), STACK_LENGTH),
        "fingerprint": fingerprint_of(row, failure),
    }
    return job_log.entry(row, LogState.FAILED, **values, **timing(row, run))


def _move_on(using: str, ended: Sequence[Ended]) -> dict[UUID, AbstractJob]:
    now = clock.now(using)
    verdicts = {row.id: decide(row, failure, now) for row, failure, _ in ended}
    dead = [row for row, _, _ in ended if verdicts[row.id].due_date is None]
    retried = [row for row, _, _ in ended if verdicts[row.id].due_date is not None]
    covered = covered_rows(using, retried) if retried else []
    suspended = {row.id for row in covered}
    departures = [
        Departure([row for row in retried if row.id not in suspended], TimerJob),
        Departure(covered, SuspendedJob, {"suspended_at": now}),
        Departure(dead, DeadLetterJob, {"died_at": now}),
    ]
    alike = {row.id: {"fingerprint": fingerprint_of(row, failure)} for row, failure, _ in ended}
    changes = {pk: verdict.columns for pk, verdict in verdicts.items()}
    changes |= {row.id: changes[row.id] | alike[row.id] for row in dead}
    told = [each for each in ended if each[1].counts or not verdicts[each[0].id].due_date]
    # Before the rows are moved, as columns that were not loaded are copied from there.
    write_failures(using, [(*each, not verdicts[each[0].id].due_date) for each in told if is_task(each[0])])
    untold = [row for row, failure, _ in ended if not failure.counts and verdicts[row.id].due_date]
    keep_date(using, [row for row in untold if is_task(row) and row.due_date and not (row.attempts or row.snoozes)])
    depart = fail_statement.depart if fail_statement.is_possible(using) else _depart
    return depart(using, departures, changes, {row.id: timing(row, run) | alike[row.id] for row, _, run in told})


def _depart(
    using: str, departures: Sequence[Departure], changes: Changes, timings: Mapping[UUID, dict[str, Any]]
) -> dict[UUID, AbstractJob]:
    moved = {row.id: row for rows, to, more in departures for row in move_all(rows, to, changes, **more)}
    before = {row.id: row for rows, _, _ in departures for row in rows}
    told = [pk for pk in timings if pk in moved]
    job_log.write(using, LogState.FAILED, [_failure(before[pk], moved[pk], timings[pk]) for pk in told])
    return moved


def _failure(row: AbstractJob, moved: AbstractJob, timing: dict[str, Any]) -> JobLog:
    values: dict[str, Any] = {"exception_message": moved.exception_message, "exception_stack": moved.exception_stack}
    # The old row has the original due date; the new row has that of the retry.
    return job_log.entry(moved, LogState.FAILED, **values, due_date=row.due_date, **timing)
