"""Results of task attempts, and of tasks that end without one, written in the transaction that settles them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from uuid import UUID

from django.dispatch import Signal

from jobexec import clock
from jobexec.exceptions import DoNotRetry, HandlerNotFound, JobCancelled, JobExecError
from jobexec.models import AbstractJob, DeadLetterJob, ResultStatus, TaskResult

from ..notify.signals import announce
from ..sql.errors import shortened, storable
from ..values.failure import Failure
from ..values.run import Run
from .task_rows import TRACEBACK_LENGTH, End, write_ends

#: Sent after the commit when tasks end through an operator or the death of their node, and not through a run of this
#: process. Arguments: ``using``, ``jobs`` (the last state of the rows; long columns may have been left unloaded).
task_ended = Signal()

#: The reasons for the end of a task that did not run to its end.
CANCELLED, DELETED = "It was cancelled by an operator.", "It was deleted by an operator."


def is_task(row: AbstractJob) -> bool:
    """Whether the job came through django.tasks."""
    return row.task_backend != ""


def mark_ready(using: str, ids: Collection[UUID]) -> None:
    """Reopen the results of the tasks among these former dead letters; the results of their attempts are kept."""
    if ids:
        TaskResult.objects.using(using).filter(pk__in=ids).update(status=ResultStatus.READY, end_time=None)


def write_failures(using: str, failed: Sequence[tuple[AbstractJob, Failure, Run, bool]]) -> None:
    """Record failed attempts of tasks whose locked rows have not moved yet; the last value of each is True if it ended.

    With an unknown handler there was no attempt.
    """
    now = clock.now(using)
    ends = {
        row.pk: End(
            ResultStatus.FAILED if dead else ResultStatus.READY,
            now if dead else None,
            None if failure.kind == "unknown" else run,
            [error_of(failure)],
        )
        for row, failure, run, dead in failed
    }
    write_ends(using, [row for row, *_ in failed], ends)


def keep_date(using: str, rows: Sequence[AbstractJob]) -> None:
    """Record tasks whose locked rows are about to get another date although no attempt is recorded."""
    write_ends(using, rows, {row.pk: End(ResultStatus.READY, None) for row in rows})


def write_cancelled(using: str, cancelled: Sequence[tuple[AbstractJob, Failure, Run]]) -> None:
    """Record tasks that were cancelled while a node held them; the failure of their run, if any, comes first."""
    now = clock.now(using)
    ends = {}
    for row, failure, run in cancelled:
        own = [] if failure.kind == "cancelled" else [error_of(failure)]
        ends[row.pk] = End(ResultStatus.FAILED, now, run, [*own, _error(JobCancelled, f"JobCancelled: {CANCELLED}")])
    write_ends(using, [row for row, *_ in cancelled], ends)


def write_removed(
    using: str, rows: Sequence[AbstractJob], reason: str, reasons: Mapping[UUID, str] | None = None
) -> None:
    """Record the tasks among rows of one table that are about to be removed without a run; sends ``task_ended``.

    ``reasons`` holds, by id, reasons that replace ``reason``. A dead letter has failed before: its result stays as it
    is, and is written only if there is none.
    """
    tasks = [row for row in rows if is_task(row)]
    if not tasks:
        return
    now, why = clock.now(using), reasons or {}
    if tasks[0].dead:
        found = TaskResult.objects.using(using).filter(pk__in=[row.pk for row in tasks])
        known = set(found.values_list("pk", flat=True))
        tasks = [row for row in tasks if row.pk not in known]
    told = {row.pk: _removal(row, why.get(row.pk) or reason) for row in tasks}
    write_ends(using, tasks, {pk: End(ResultStatus.FAILED, now, None, [error]) for pk, error in told.items()})
    announce_ended(using, tasks)


def _removal(row: AbstractJob, reason: str) -> dict[str, str]:
    if row.dead:
        return _error(JobExecError, row.exception_stack or row.exception_message)
    return _error(JobCancelled, f"JobCancelled: {reason}")


def write_buried(using: str, dead: DeadLetterJob, error: BaseException | None = None) -> None:
    """Record a task that has just become a dead letter without a run; sends ``task_ended``."""
    if is_task(dead):
        told = _error(type(error) if error else DoNotRetry, dead.exception_stack or dead.exception_message)
        write_ends(using, [dead], {dead.pk: End(ResultStatus.FAILED, clock.now(using), None, [told])})
        announce_ended(using, [dead])


def announce_ended(using: str, rows: Sequence[AbstractJob]) -> None:
    """Send ``task_ended`` after the commit for the tasks among these jobs."""
    tasks = [row for row in rows if is_task(row)]
    if tasks:
        announce(task_ended, using, TaskResult, jobs=tasks)


def error_of(failure: Failure) -> dict[str, str]:
    """Build the error of an attempt as in django.tasks; its text is that of the job's row, without sensitive data."""
    kind = HandlerNotFound if failure.kind == "unknown" else JobExecError
    return _error(kind if failure.error is None else type(failure.error), failure.stack or failure.message)


def _error(kind: type[BaseException], text: str) -> dict[str, str]:
    path = storable(f"{kind.__module__}.{kind.__qualname__}")
    return {"exception_class_path": path, "traceback": shortened(storable(text), TRACEBACK_LENGTH)}
