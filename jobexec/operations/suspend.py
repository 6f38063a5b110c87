"""Suspend and activate: single jobs, or everything in a scope, also what is created later."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.db.models import QuerySet

from jobexec import clock, signals
from jobexec.models import AbstractJob, Job, SuspendedJob, Suspension, TimerJob

from .announce import announce
from .locking import atomic, delete_rows, lock_rows
from .move import move, move_all
from .selection import CHANGED_MEANWHILE, OperationResult, Target, database_of, for_each
from .suspensions import covered_rows, lock_suspensions, scope_of
from .wake import wake_on_commit

_PAGE = 200


def suspend(target: Target | None = None, *, using: str | None = None, **scope: Any) -> OperationResult | int:
    """Suspend jobs, or a scope.

    With a target: those jobs. A running one finishes; its retry lands in the suspended jobs. Returns an
    :class:`~jobexec.operations.selection.OperationResult`.

    With exactly one of ``process_instance_id``, ``process_definition_key``, ``job_definition_id``, ``tenant_id``:
    everything in it, also jobs that are created later. Existing jobs move in pages, those that run finish. Returns
    how many moved. The back-off of a waiting retry is kept in its due date.
    """
    if target is not None:
        return for_each(target, using, _suspend_one, Job, TimerJob)
    column, value = scope_of(**scope)
    database = database_of(None, using)
    Suspension.objects.using(database).get_or_create(scope=column, value=value)
    return sum(_suspend_table(table, database, {column: value}) for table in (TimerJob, Job))


def _suspend_one(row: AbstractJob) -> str | None:
    using = row._state.db or "default"
    if row.locked:
        type(row)._base_manager.using(using).filter(pk=row.pk).update(suspend_requested=True)
        return None
    moved = move(row, SuspendedJob, suspend_requested=True, suspended_at=clock.now(using))
    if moved is None:
        return CHANGED_MEANWHILE
    announce(signals.job_suspended, using, SuspendedJob, jobs=[moved])
    return None


def _suspend_table(table: type[AbstractJob], using: str, scope: dict[str, str]) -> int:
    def suspend_page(rows: list[Any]) -> int:
        moved = move_all(rows, SuspendedJob, suspended_at=clock.now(using))
        if moved:
            announce(signals.job_suspended, using, SuspendedJob, jobs=moved)
        return len(moved)

    return _in_pages(table._base_manager.using(using).filter(lock_owner=None, **scope), suspend_page)


def _in_pages(rows: QuerySet[Any], act: Callable[[list[Any]], int]) -> int:
    """The sum of ``act`` over pages of locked rows, one transaction each.

    Walks the ids upwards: rows that somebody else is just acquiring are passed over and must not be met again and
    again.
    """
    count, last = 0, None
    while True:
        with atomic(rows.db):
            page = rows.filter(pk__gt=last) if last else rows
            locked = list(lock_rows(page.order_by("pk"), skip_locked=True)[:_PAGE])
            if not locked:
                return count
            count += act(locked)
            last = locked[-1].pk


def activate(target: Target | None = None, *, using: str | None = None, **scope: Any) -> OperationResult | int:
    """Undo :func:`suspend`; takes the same arguments.

    A job becomes runnable only if no other suspension covers it: activating a process instance leaves jobs that
    were suspended by themselves, activating a job does not overrule the suspension of its tenant.
    """
    if target is not None:
        return for_each(target, using, _activate_one, Job, SuspendedJob)
    column, value = scope_of(**scope)
    database = database_of(None, using)
    _lift(database, column, value)
    rows = SuspendedJob.objects.using(database).filter(suspend_requested=False, **{column: value})
    return _in_pages(rows, lambda page: _activate_rows(database, page))


def _lift(using: str, column: str, value: str) -> None:
    with atomic(using):
        ended = [row.pk for row in lock_suspensions(using) if (row.scope, row.value) == (column, value)]
        if ended:
            delete_rows(Suspension.objects.using(using).filter(pk__in=ended))


def _activate_one(row: AbstractJob) -> str | None:
    using = row._state.db or "default"
    type(row)._base_manager.using(using).filter(pk=row.pk).update(suspend_requested=False)
    row.suspend_requested = False
    if isinstance(row, SuspendedJob) and not _activate_rows(using, [row]):
        return "still suspended by its process instance, process definition, job definition or tenant"
    return None


def _activate_rows(using: str, rows: list[SuspendedJob]) -> int:
    covered, now = covered_rows(using, rows), clock.now(using)
    free = [row for row in rows if row not in covered]
    waiting = [row for row in free if row.due_date and row.due_date > now]
    due = [row for row in free if row not in waiting]
    count = 0
    for moved in (move_all(waiting, TimerJob), move_all(due, Job)):
        if moved:
            announce(signals.job_activated, using, type(moved[0]), jobs=moved)
            wake_on_commit(using)
            count += len(moved)
    return count
