"""Move a job between tables: delete, insert, keep the id."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar
from uuid import UUID

from jobexec import clock
from jobexec.models import SHARED_COLUMNS, AbstractJob, BlockedJob, DeadLetterJob, ExternalWorkerJob, Job

from ..history.incidents import FAILED_JOB, open_incidents, resolve_incidents
from ..history.task_attempts import is_task, mark_ready
from ..sql.delete import delete_rows
from ..sql.locks import atomic
from ..values.ranking import rank
from .fencing import UNLOCKED, lock_unchanged
from .routing import (
    COMES_BACK,
    available_at,
    free_instances,
    keep_lease,
    lease_kept,
    may_hold,
    next_look,
    wake_for_permits,
)
from .tallies import count_move

J = TypeVar("J", bound=AbstractJob)


def move(row: AbstractJob, to: type[J], *, incident_type: str = FAILED_JOB, **changes: Any) -> J | None:
    """Move one row to another job table; return None if another transaction changed or moved it first.

    Deletes by primary key and revision first, so of two concurrent moves one finds nothing and inserts nothing; both
    steps are one transaction. The lock is not copied and the revision rises, so an executor that still runs the job is
    fenced.
    """
    moved = move_all([row], to, incident_type=incident_type, **changes)
    return moved[0] if moved else None


def move_all(
    rows: Sequence[AbstractJob],
    to: type[J],
    each: Mapping[UUID, Mapping[str, Any]] | None = None,
    *,
    incident_type: str = FAILED_JOB,
    **changes: Any,
) -> list[J]:
    """Move rows of one table to another in few statements; the caller has locked them or accepts that some stay.

    ``changes`` are columns of all rows, ``each`` has further ones by id. Returns the new rows; rows that changed since
    they were read are not moved and not returned. New dead letters get an incident of ``incident_type``; the incidents
    of former ones are resolved.
    """
    if not rows:
        return []
    source, using = type(rows[0]), rows[0]._state.db or "default"
    with atomic(using):
        gone = _delete_unchanged(source, using, rows)
        own = each or {}
        moved = [_copy(row, to, using, {**changes, **own.get(row.pk, {})}) for row in rows if row.pk in gone]
        to._base_manager.using(using).bulk_create(moved)
        if source is ExternalWorkerJob:
            free_instances(using, may_hold(row for row in rows if row.pk in gone))
        if source is not to:
            wake_for_permits(using, rows)
        count_move(using, moved, source, to)
        if to is DeadLetterJob:
            open_incidents(using, moved, incident_type)
        elif source is DeadLetterJob:
            resolve_incidents(using, gone)
            mark_ready(using, [row.pk for row in moved if is_task(row)])
    return moved


def _delete_unchanged(source: type[AbstractJob], using: str, rows: Sequence[AbstractJob]) -> set[Any]:
    """Lock and delete the rows that are unchanged since they were read, in two statements for any number of rows.

    A row that another transaction has locked is skipped like a changed one, as it is being changed. Waiting for it
    deadlocked on MariaDB, which reads all rows of a small table, including locked ones, and on every database where the
    caller holds suspensions.
    """
    expected = {row.pk: row.revision for row in rows}
    table = source._base_manager.using(using)
    unchanged = lock_unchanged(table, expected, skip_locked=True)
    if unchanged:
        delete_rows(table.filter(pk__in=unchanged))
    return unchanged


def is_ranked(source: type[AbstractJob], to: type[AbstractJob], changes: Mapping[str, Any]) -> bool:
    """Whether a move gives jobs a new place in the order of acquisition.

    A job that was blocked, or is blocked again, keeps its place, unless it gets another date or has waited for a
    message.
    """
    if to not in (Job, BlockedJob, ExternalWorkerJob):
        return False
    return (
        bool({"due_date", "waits_for"}.intersection(changes))
        or BlockedJob not in (source, to)
        or not {source, to} & {Job, ExternalWorkerJob}
    )


def _copy(row: AbstractJob, to: type[J], using: str, changes: dict[str, Any]) -> J:
    values = {name: getattr(row, name) for name in SHARED_COLUMNS}
    values |= {**UNLOCKED, "revision": row.revision + 1, **changes}
    if is_ranked(type(row), to, changes):
        values["rank"] = rank(using, values["due_date"] or clock.now(using), values["priority"])
    if isinstance(row, ExternalWorkerJob) and to in COMES_BACK and row.lease_token:
        values["handler_configuration"] = keep_lease(values["handler_configuration"], row.lease_token)
    if to is ExternalWorkerJob:
        values["available_at"] = available_at(using, values["due_date"])
        values |= lease_kept(values["handler_configuration"])
    elif to is BlockedJob:
        values["next_look"] = next_look(using, values["waits_for"])
    return to(**values)
