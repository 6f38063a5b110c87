"""Run one job in the caller's thread (Camunda: ManagementService.executeJob)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import UUID

from django.db import DatabaseError, connections, transaction
from django.utils.translation import gettext as _

from jobexec import clock
from jobexec.conf import get_settings
from jobexec.exceptions import InvalidJob, JobLocked, JobNotFound, JobStateError, LockLost
from jobexec.handlers.base import JobHandler
from jobexec.handlers.context import JobContext
from jobexec.handlers.registry import get_handler
from jobexec.identifiers import uuid7
from jobexec.models import AbstractJob, DeadLetterJob, Job, JobType, SuspendedJob
from jobexec.operations.audit import acting, audited, note_jobs
from jobexec.operations.enqueue.batch_drivers import reopen
from jobexec.operations.enqueue.unique import take_back
from jobexec.operations.notify.wake import wake_for_resources
from jobexec.operations.resources.promote import permit_for
from jobexec.operations.rows.exclusive import lock_instances, lock_siblings
from jobexec.operations.rows.move import move
from jobexec.operations.rows.routing import is_external
from jobexec.operations.settle.fail import fail_job
from jobexec.operations.settle.recover import lock_for
from jobexec.operations.sql.errors import one_line
from jobexec.operations.targets.lookup import find_job
from jobexec.operations.values.acquired_job import AcquiredJob, columns, from_row
from jobexec.operations.values.failure import Failure
from jobexec.operations.values.log_fields import log_fields
from jobexec.operations.values.run import Run

from .loops.meter_writing import write_counted
from .nodes.meters import Meters
from .run.execution import failure_of, run_handler
from .run.outcomes import Outcome, complete_alone, tell_finished
from .run.redacted import redacted, without_secrets
from .run.spans import end_span

logger = logging.getLogger("jobexec.execution")

REPORTER = "execute now"


class _Caller:
    """The caller's thread as a runner: its lock is valid for LOCK_TIME."""

    def __init__(self) -> None:
        self.node_name = REPORTER
        self.lock_owner = f"execute now:{uuid7()}"
        self.shutting_down = False
        self._start = clock.monotonic()

    def begin(self, context: JobContext, handler: JobHandler) -> None:
        """Nothing to do: the caller has its own timeout and its own way to stop."""

    def end(self, context: JobContext) -> None:
        """Nothing to do: no thread watches this run."""

    def owns(self, lock_owner: str, using: str) -> bool:
        lock_time = get_settings().engine(using).lock_time.total_seconds()
        return lock_owner == self.lock_owner and clock.monotonic() < self._start + lock_time


def execute_now(id: UUID | str, *, using: str = "default") -> Any:
    """Run a job immediately, whatever its due date, retries or suspension, and return its handler's return value.

    A job that waits for a message runs without one.

    The outcome is written as by an executor: success deletes the job; a failure is recorded, costs a retry, and is
    raised again. Raises :class:`~jobexec.exceptions.JobNotFound`, :class:`~jobexec.exceptions.JobLocked` if the job
    runs elsewhere, an exclusive sibling holds its process instance or its resource lets no more jobs run,
    :class:`~jobexec.exceptions.LockLost` if it took longer than LOCK_TIME and another node acquired it,
    :class:`~jobexec.exceptions.DuplicateJob` for a dead letter whose unique key another job has taken,
    :class:`~jobexec.exceptions.JobStateError` for a job of external workers, and
    :class:`~jobexec.exceptions.InvalidJob` for recorded history.

    Inside the caller's transaction, an exclusive job keeps the rows of its waiting siblings locked until that ends.
    """
    caller = _Caller()
    return _execute(Outcome(_lock(id, using, caller.lock_owner)), caller)


def execute_by_hand(id: UUID | str, *, using: str = "default") -> Failure | None:
    """As :func:`execute_now`, for an operator; returns the failure as recorded, or None.

    Refuses, before anything changes, what was held back on purpose and what cannot succeed in this process: also raises
    :class:`~jobexec.exceptions.JobStateError` for a job that is suspended, a dead letter or for external workers, and
    :class:`~jobexec.exceptions.HandlerNotFound`.
    """
    caller = _Caller()
    outcome = Outcome(execute(id, using, caller.lock_owner))
    try:
        with acting(None):  # the handler's changes are not the operator's
            _execute(outcome, caller)
    except (Exception, SystemExit) as error:
        if outcome.failure is None and not outcome.counted:
            raise
        if outcome.failure is None:  # committed; then one of the handler's own hooks failed
            text = "Job %s is done, but a hook after its commit raised %s"
            logger.warning(text, outcome.work.id, type(error).__name__, extra=log_fields(outcome.work))
    return outcome.failure


@audited
def execute(target: UUID | str, using: str, owner: str) -> AcquiredJob:
    """Lock a job that an operator may execute; the audit log contains this function's name."""
    return _lock(target, using, owner, check=_check)


def _check(row: AbstractJob) -> None:
    if isinstance(row, DeadLetterJob):
        raise JobStateError(_("Job %(id)s is a dead letter. Requeue it first.") % {"id": row.pk})
    if row.waits_for is not None and not row.dead:
        text = _("Job %(id)s waits for the message %(name)s with the key %(key)s. Publish it.")
        raise JobStateError(text % {"id": row.pk, "name": row.waits_for, "key": row.waits_for_key})
    if isinstance(row, SuspendedJob):
        raise JobStateError(_("Job %(id)s is suspended. Activate it first.") % {"id": row.pk})
    _refuse_external(row)
    assert row.runnable, type(row)
    get_handler(row.handler_type)


def _refuse_external(row: AbstractJob) -> None:
    """Also one that is suspended or a dead letter: there is no handler that could run it."""
    if is_external(row):
        raise JobStateError(_("Job %(id)s is for external workers, which fetch it.") % {"id": row.pk})


def _execute(outcome: Outcome, caller: _Caller) -> Any:
    work = outcome.work
    started_at, start = clock.now(work.using), clock.monotonic()
    handler = None
    try:
        handler = get_handler(work.handler_type)
        result = run_handler(handler, work, caller, outcome)
    except BaseException as error:
        if not outcome.counted:
            run = Run(started_at, clock.monotonic() - start, caller.node_name)
            failure = failure_of(error, work.using, handler)
            if error is work.handled:
                failure = replace(failure, kind="handled")
            outcome.failure = redacted(failure, handler, outcome)
            _record(outcome, outcome.failure, run)
        _count(outcome)
        end_span(outcome)
        raise
    if outcome.run is None:
        outcome.run = Run(started_at, clock.monotonic() - start, caller.node_name)
        if not complete_alone(outcome, outcome.run):
            end_span(outcome)
            raise LockLost()
    outcome.counted = True
    _count(outcome)
    end_span(outcome)
    return result


def _record(outcome: Outcome, failure: Failure, run: Run) -> None:
    work, outcome.run = outcome.work, run
    try:
        moved = fail_job(work.using, work, failure, run)
    except DatabaseError as error:  # also for a broken transaction of the caller, which must see the handler's error
        # Without the stack trace: it contains the handler's error unredacted.
        reason = without_secrets(str(error), outcome, error)
        text = "Job %s: its failure could not be recorded (%s); its lock will expire"
        logger.error(text, work.id, one_line(reason), extra=log_fields(work, outcome=outcome.name))
    else:
        outcome.counted, outcome.became = moved is not None, type(moved) if moved is not None else None


def _count(outcome: Outcome) -> None:
    """Write at once what this run adds to the meters: this process may never run an executor that does.

    After the commit, which may be the caller's, tell the handler that the task is finished.
    """
    if outcome.keeper is not None:
        transaction.on_commit(partial(tell_finished, [outcome]), using=outcome.work.using)
    using, meters = outcome.work.using, Meters(outcome.work.using)
    wake_for_resources(using, [outcome.work.resource])
    meters.ended([outcome])
    try:
        with transaction.atomic(using=using):  # a savepoint: the job is settled already
            write_counted(using, REPORTER, meters.take(), clock.now(using))
    except DatabaseError as error:
        work = outcome.work
        text = "Job %s could not be counted in the meters: %s"
        logger.warning(text, work.id, one_line(error), extra=log_fields(work))


def _lock(
    id: UUID | str, using: str, owner: str, check: Callable[[AbstractJob], None] = lambda row: None
) -> AcquiredJob:
    in_transaction = connections[using].in_atomic_block
    with transaction.atomic(using=using):  # with a savepoint: a refusal must not break the caller's transaction
        row = find_job(id, using)
        if in_transaction and row.serial_key:
            # Makes acquisitions skip them. Otherwise an acquisition would insert the lock row that we are about to
            # insert, and wait for the end of the caller's transaction, with all the other jobs of its page.
            lock_siblings(using, row.serial_key)
        table, job = type(row), _executable(row, check)
        if not lock_for(using, job, owner, get_settings().engine(using).lock_time):
            raise JobLocked(f"Job {job.pk} has just been acquired by another node.")
        if job.serial_key and not lock_instances(using, owner, [job.serial_key]):
            raise JobLocked(f"Another exclusive job of process instance {job.process_instance_id!r} is running.")
        note_jobs(using, table, [job.pk], [job.tenant_id])
        return from_row(Job.objects.using(using).values_list(*columns(wide=True)).get(pk=job.pk), using, owner)


def _executable(row: AbstractJob, check: Callable[[AbstractJob], None]) -> Job:
    """Move the row to the table of executable jobs, unless it is there."""
    if row.locked:
        raise JobLocked(f"Job {row.pk} is running or queued on {row.lock_owner}.")
    if row.type == JobType.HISTORY:
        raise InvalidJob(f"Job {row.pk} is a history job, which only the history loop of an executor runs.")
    check(row)
    _refuse_external(row)
    if isinstance(row, Job):
        return row
    if isinstance(row, DeadLetterJob):
        reopen(row._state.db or "default", [row])
        take_back(row)
    if row.resource is not None and not permit_for(row._state.db or "default", row):
        raise JobLocked(f"Job {row.pk} waits for its resource {row.resource!r}, which lets no more jobs run now.")
    waited: dict[str, Any] = (
        {} if row.waits_for is None else {"waits_for": None, "waits_for_key": None, "waits_until": None}
    )
    moved = move(row, Job, retries=max(1, row.retries), suspend_requested=False, **waited)
    if moved is None:
        raise JobNotFound(f"Job {row.pk} has just changed.")
    return moved
