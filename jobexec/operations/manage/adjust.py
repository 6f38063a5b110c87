"""Operators' changes to jobs (Camunda: ManagementService). Each verb is a function of a row, ids or a queryset."""

from __future__ import annotations

from datetime import datetime
from functools import partial

from jobexec import clock, signals
from jobexec.conf.messages import check_moment
from jobexec.exceptions import JobLocked
from jobexec.models import (
    JOB_TABLES,
    WAITING_TABLES,
    AbstractJob,
    DeadLetterJob,
    ExternalWorkerJob,
    HistoryJob,
    JobType,
    SuspendedJob,
)

from ..audit import audited
from ..enqueue.batch_drivers import reopen
from ..enqueue.unique import take_back
from ..notify.signals import announce
from ..notify.wake import wake_on_commit
from ..rows.move import move
from ..rows.remove import remove_deleted
from ..rows.requeued import requeued_columns
from ..rows.routing import free_instances, held_by, is_available, may_hold, put_off, table_for, wake_for
from ..rows.suspension_cover import covered_rows
from ..targets.for_each import CHANGED_MEANWHILE, OperationResult, Target, database_of, for_each
from ..values.arguments import check_retries
from ..values.ranking import check_priority, rank, reranked
from .bulk import delete_page, requeue_page, set_due_date_page, set_priority_page, set_retries_page, stays

_TABLES: tuple[type[AbstractJob], ...] = (*JOB_TABLES, HistoryJob)


@audited
def set_retries(target: Target, retries: int, *, using: str | None = None) -> OperationResult:
    """Set the number of attempts left (at least 1); a dead letter is requeued with them.

    For running jobs it takes effect at their next failure. Camunda's SetJobRetries.
    """
    check_retries(retries)

    def verb(row: AbstractJob) -> str | None:
        if isinstance(row, DeadLetterJob):
            return _requeue(row, retries)
        _update(row, retries=retries)
        return None

    bulk = partial(set_retries_page, retries=retries)
    return for_each(target, using, verb, *_TABLES, bulk=bulk)


@audited
def requeue(target: Target, retries: int = 3, *, using: str | None = None) -> OperationResult:
    """Give dead letters ``retries`` new attempts and make them executable; the old exception is cleared.

    A dead letter that a suspension covers goes to the suspended jobs, recorded history back to the HistoryJobs, and an
    external job back to the table from which workers fetch, with its key. One that waits for a message waits again,
    and is suspended when it goes on, as a new job. A job whose unique key another job has taken stays a dead letter
    until that job has ended.
    Flowable's MoveDeadLetterJobToExecutableJob and MoveDeadLetterJobToHistoryJob.
    """
    check_retries(retries)
    bulk = partial(requeue_page, retries=retries)
    return for_each(target, using, lambda row: _requeue(row, retries), DeadLetterJob, bulk=bulk)


def _requeue(row: DeadLetterJob, retries: int) -> str | None:
    fresh, using = requeued_columns(retries), row._state.db or "default"
    row.suspend_requested = False
    reopen(using, [row])
    take_back(row)
    recorded = row.type == JobType.HISTORY
    if recorded:
        moved: AbstractJob | None = move(row, HistoryJob, **fresh, due_date=clock.now(using))
    else:
        # One that waits for a message must be looked at: the message may be kept.
        covered = row.waits_for is None and covered_rows(using, [row])
        to = SuspendedJob if covered else table_for(row, later=False)
        moved = move(row, to, **fresh, due_date=None)
    if moved is None:
        return CHANGED_MEANWHILE
    announce(signals.job_requeued, using, type(moved), jobs=[moved])
    if recorded:
        wake_on_commit(using, history=True)
    else:
        wake_for(using, [moved])
    return None


@audited
def retry_now(target: Target, *, using: str | None = None) -> OperationResult:
    """Make waiting retries and timers due immediately, whatever their due date; their retries stay."""
    return set_due_date(target, None, using=using)


@audited
def set_due_date(target: Target, due_date: datetime | None, *, using: str | None = None) -> OperationResult:
    """Set the due date (aware), or None for as soon as possible; refused while jobs run.

    A job that becomes due moves to the executable jobs, a postponed job moves to the timers. An external job stays in
    its table, and workers cannot fetch it before the date. A job that may already run keeps its place in the queue.
    Camunda's SetJobDuedate.
    """
    check_moment("due_date", due_date)
    database = database_of(target, using)
    later = due_date is not None and due_date > clock.now(database)

    def verb(row: AbstractJob) -> str | None:
        _refuse_running(row)
        if isinstance(row, HistoryJob):
            _update(row, due_date=due_date or clock.now(database))
            wake_on_commit(database, history=True)
            return None
        if isinstance(row, ExternalWorkerJob) and row.resource is None:
            _set_available(row, due_date)
            return None
        if row.waits_for is not None or stays(type(row), due_date, later):  # the message comes before the date
            _update(row, due_date=due_date)
        elif move(row, table_for(row, later=later), due_date=due_date) is None:
            return CHANGED_MEANWHILE
        wake_for(database, [row], timers=later)
        return None

    bulk = partial(set_due_date_page, due_date=due_date, later=later)
    return for_each(target, database, verb, *WAITING_TABLES, HistoryJob, bulk=bulk)


def _set_available(row: ExternalWorkerJob, due_date: datetime | None) -> None:
    using = row._state.db or "default"
    waits = due_date is not None or not is_available(row, clock.now(using))
    standing = {"rank": rank(using, due_date or clock.now(using), row.priority)} if waits else {}
    _update(row, **put_off(using, due_date), **standing)
    free_instances(using, may_hold([row]))
    # Also when it is postponed: waiting workers learn when the next job of this type becomes available.
    wake_for(using, [row])


@audited
def set_priority(target: Target, priority: int, *, using: str | None = None) -> OperationResult:
    """Change the priority (higher runs sooner); for a running job it takes effect at its next attempt."""
    check_priority(priority)
    database = database_of(target, using)

    def verb(row: AbstractJob) -> str | None:
        # Adjust the rank instead of computing it from the dates: the rank of a requeued job is later than both.
        _update(row, priority=priority, rank=reranked(database, row.rank, priority - row.priority))
        return None

    bulk = partial(set_priority_page, priority=priority)
    return for_each(target, database, verb, *JOB_TABLES, bulk=bulk)


@audited
def delete_jobs(target: Target, *, using: str | None = None) -> OperationResult:
    """Delete jobs in any state permanently; refused while they run (Camunda: DeleteJobCmd)."""
    database = database_of(target, using)

    def verb(row: AbstractJob) -> str | None:
        _refuse_running(row)
        remove_deleted(database, [row])
        return None

    return for_each(target, database, verb, *_TABLES, bulk=delete_page)


def _refuse_running(row: AbstractJob) -> None:
    if row.locked:
        raise JobLocked(held_by(row))


def _update(row: AbstractJob, **changes: object) -> None:
    """Update without incrementing ``revision``: a running job's outcome must still count after the change."""
    type(row)._base_manager.using(row._state.db or "default").filter(pk=row.pk).update(**changes)
