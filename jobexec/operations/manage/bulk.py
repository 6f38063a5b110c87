"""The fast form of verbs on many jobs: lock, check and change a page of rows in few statements.

Each function does to the rows of one table what its verb, which defines the semantics, does to each of them. It
handles the rows that need the same change and returns their ids. Running rows, rows with a suspension of their own and
rows that changed meanwhile are left to the verb, which gives the reason if it refuses.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import F
from django.dispatch import Signal

from jobexec import clock, signals
from jobexec.models import (
    RUNNABLE_TABLES,
    AbstractJob,
    DeadLetterJob,
    ExternalWorkerJob,
    HistoryJob,
    JobType,
    SuspendedJob,
    Suspension,
    SuspensionScope,
    TimerJob,
)

from ..enqueue.batch_drivers import reopen
from ..messages.deliver import receive_kept
from ..notify.signals import announce
from ..rows import move_statement
from ..rows.move import move_all
from ..rows.remove import remove_deleted, remove_waiting
from ..rows.requeued import requeued_columns
from ..rows.routing import free_instances, is_available, may_hold, put_off, table_for, wake_for, wake_for_permits
from ..rows.suspension_cover import covered_rows
from ..rows.tallies import count_move
from ..sql.locks import lock_rows
from ..values.ranking import rank, reranked

#: Columns that may be large, and that no decision needs.
_LONG = ("handler_configuration", "custom_headers", "exception_stack")


def lock_page(using: str, table: type[AbstractJob], ids: Collection[UUID], *, whole: bool = False) -> list[AbstractJob]:
    """The current rows, locked in the order of their ids; ``whole``: including large columns."""
    rows = table._base_manager.using(using).filter(pk__in=ids).order_by("pk")
    return list(lock_rows(rows if whole else rows.defer(*_LONG)))


def _goes_inside(using: str, *told: Signal) -> bool:
    """Return whether the database can move the rows itself, and no signal's receivers need the complete rows."""
    return move_statement.is_possible(using) and not any(signal.receivers for signal in told)


def _move_page(
    using: str, rows: Sequence[AbstractJob], to: type[AbstractJob], changes: dict[str, Any], *told: Signal
) -> list[UUID]:
    """Move locked rows of one table; return the ids of the moved rows."""
    if not rows:
        return []
    if _goes_inside(using, *told) and type(rows[0]) is not to:
        ids = [row.pk for row in rows]
        move_statement.transfer(using, type(rows[0]), to, ids, changes)
        count_move(using, rows, type(rows[0]), to)
        wake_for_permits(using, rows)
        return ids
    moved = move_all(rows, to, **changes)
    for signal in told:
        announce(signal, using, to, jobs=moved)
    return [row.pk for row in moved]


def requeue_page(using: str, table: type[AbstractJob], ids: Collection[UUID], *, retries: int) -> Iterable[UUID]:
    """Skip history, which goes to another table, and jobs that must take their unique key back."""
    page = lock_page(using, table, ids, whole=not _goes_inside(using, signals.job_requeued))
    rows = [row for row in page if isinstance(row, DeadLetterJob) and row.type != JobType.HISTORY and not row.lost_key]
    for row in rows:
        row.suspend_requested = False
    reopen(using, rows)
    covered = covered_rows(using, [row for row in rows if row.waits_for is None])
    held = {row.pk for row in covered}
    free = [row for row in rows if row.pk not in held]
    changes = {**requeued_columns(retries), "due_date": None}
    done: list[UUID] = []
    for to in RUNNABLE_TABLES:
        those = [row for row in free if table_for(row, later=False) is to]
        done += _move_page(using, those, to, changes, signals.job_requeued)
    suspended = changes | {"suspended_at": clock.now(using)}
    done += _move_page(using, covered, SuspendedJob, suspended, signals.job_requeued)
    wake_for(using, rows)
    return done


def set_retries_page(using: str, table: type[AbstractJob], ids: Collection[UUID], *, retries: int) -> Iterable[UUID]:
    """Requeue dead letters."""
    if table is DeadLetterJob:
        return requeue_page(using, table, ids, retries=retries)
    return _update(using, table, [row.pk for row in lock_page(using, table, ids)], retries=retries)


def _update(using: str, table: type[AbstractJob], ids: list[UUID], **changes: Any) -> list[UUID]:
    """Update without incrementing ``revision``: a running job's outcome must still count after the change."""
    if ids:
        table._base_manager.using(using).filter(pk__in=ids).update(**changes)
    return ids


def set_due_date_page(
    using: str, table: type[AbstractJob], ids: Collection[UUID], *, due_date: datetime | None, later: bool
) -> Iterable[UUID]:
    """Skip running jobs. ``later``: the date is in the future."""
    if table is HistoryJob:
        return []
    stay = stays(table, due_date, later)
    leave = later or table is TimerJob  # no statement moves rows within a table
    page = lock_page(using, table, ids, whole=not stay and not (leave and _goes_inside(using)))
    rows = [row for row in page if not row.locked]
    wake_for(using, rows, timers=later)
    done = _update(using, table, [row.pk for row in rows if row.waits_for is not None], due_date=due_date)
    rows = [row for row in rows if row.waits_for is None]
    if table is ExternalWorkerJob:
        done += _set_available(using, [row for row in rows if row.resource is None], due_date)
        rows = [row for row in rows if row.resource is not None]
    if stay:
        return done + _update(using, table, [row.pk for row in rows], due_date=due_date)
    for to in RUNNABLE_TABLES:
        those = [row for row in rows if table_for(row, later=later) is to]
        done += _move_page(using, those, to, {"due_date": due_date})
    return done


def stays(table: type[AbstractJob], due_date: datetime | None, later: bool) -> bool:
    """Return whether a job stays in this table with the new due date; one that may already run keeps its place."""
    return not table.runnable or (later and table is TimerJob) or (due_date is None and table is not TimerJob)


def _set_available(using: str, rows: Sequence[Any], due_date: datetime | None) -> list[UUID]:
    """Update unlocked external jobs in their table, with one statement for each of their priorities.

    Jobs that are already available keep their place in the queue.
    """
    now, done = clock.now(using), list[UUID]()
    waiting = [row for row in rows if due_date is not None or not is_available(row, now)]
    keep = [row.pk for row in rows if row not in waiting]
    if keep:
        done += _update(using, ExternalWorkerJob, keep, **put_off(using, due_date))
    for priority in {row.priority for row in waiting}:
        alike = [row.pk for row in waiting if row.priority == priority]
        new_rank = rank(using, due_date or now, priority)
        done += _update(using, ExternalWorkerJob, alike, **put_off(using, due_date), rank=new_rank)
    free_instances(using, may_hold(rows))
    return done


def set_priority_page(using: str, table: type[AbstractJob], ids: Collection[UUID], *, priority: int) -> Iterable[UUID]:
    """One statement for each old priority; skip rows whose rank would reach the limit of all ranks."""
    rows = lock_page(using, table, ids)
    done: list[UUID] = []
    for old in {row.priority for row in rows}:
        change = priority - old
        step = reranked(using, 0, change)
        alike = [row.pk for row in rows if row.priority == old and reranked(using, row.rank, change) == row.rank + step]
        done += _update(using, table, alike, priority=priority, rank=F("rank") + step)
    return done


def delete_page(using: str, table: type[AbstractJob], ids: Collection[UUID]) -> Iterable[UUID]:
    """Skip running jobs."""
    rows = [row for row in lock_page(using, table, ids) if not row.locked]
    if rows:
        remove_deleted(using, rows)
    return [row.pk for row in rows]


def cancel_page(using: str, table: type[AbstractJob], ids: Collection[UUID]) -> Iterable[UUID]:
    """Skip running jobs."""
    page = lock_page(using, table, ids, whole=bool(signals.job_cancelled.receivers))
    rows = [row for row in page if not row.locked]
    if rows:
        remove_waiting(using, rows)
    return [row.pk for row in rows]


def suspend_page(using: str, table: type[AbstractJob], ids: Collection[UUID]) -> Iterable[UUID]:
    """Suspend without an end. Skip running jobs, and jobs suspended individually or with dates of their own."""
    if not table.runnable:
        return []
    page = lock_page(using, table, ids, whole=not _goes_inside(using, signals.job_suspended))
    own = _with_dates(using, page)
    rows = [row for row in page if not (row.locked or row.suspend_requested or row.pk in own)]
    receive_kept(using, rows)
    changes = {"suspend_requested": True, "suspended_at": clock.now(using)}
    return _move_page(using, rows, SuspendedJob, changes, signals.job_suspended)


def _with_dates(using: str, rows: Iterable[AbstractJob]) -> set[UUID]:
    values = [str(row.pk) for row in rows]
    found = Suspension.objects.using(using).filter(scope=SuspensionScope.JOB, value__in=values, live=True)
    return {UUID(value) for value in found.values_list("value", flat=True)}


def activate_page(using: str, table: type[AbstractJob], ids: Collection[UUID]) -> Iterable[UUID]:
    """Activate immediately. Skip jobs outside the suspended table, with dates of their own, or still covered."""
    if table is not SuspendedJob:
        return []
    page = lock_page(using, table, ids, whole=not _goes_inside(using, signals.job_activated))
    own = _with_dates(using, page)
    rows = [row for row in page if row.pk not in own]
    for row in rows:
        row.suspend_requested = False
    held, now = {row.pk for row in covered_rows(using, rows)}, clock.now(using)
    free = [row for row in rows if row.pk not in held]
    done: list[UUID] = []
    for to in reversed(RUNNABLE_TABLES):
        those = [row for row in free if table_for(row, later=bool(row.due_date and row.due_date > now)) is to]
        if those:
            done += _move_page(using, those, to, {"suspend_requested": False}, signals.job_activated)
            wake_for(using, those, timers=to is TimerJob)
    return done
