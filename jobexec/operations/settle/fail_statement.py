"""The fast form of moving failed jobs: inside the database, loading only the columns needed for the decision.

:mod:`~jobexec.operations.settle.fail` decides, and its portable form defines what is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias
from uuid import UUID

from django.db.models import QuerySet
from django.db.models.base import ModelState

from jobexec import signals
from jobexec.models import AbstractJob, DeadLetterJob, Job, LogState, SuspendedJob, SuspensionScope, TimerJob
from jobexec.models.suspension import columns_of

from ..history import job_log
from ..rows import move_statement
from ..rows.tallies import count_move

Changes: TypeAlias = Mapping[UUID, Mapping[str, Any]]


class Departure(NamedTuple):
    """Executable job rows that move to the same table, and the values of that table's additional columns."""

    rows: Sequence[AbstractJob]
    to: type[AbstractJob]
    more: Mapping[str, Any] = {}


#: The columns that decide about a failed job, and those in the log of a cancelled one.
COLUMNS = frozenset(
    {
        *("id", "revision", "lock_owner", "retries", "attempts", "lost_runs", "conflicts", "snoozes"),
        *("unknown_since", "retry_plan", "cancel_requested", "suspend_requested", "due_date", "create_time"),
        *("task_backend", "resource", "batch_id", "waits_for"),
        *job_log.COPIED,
        *(column for scope in SuspensionScope.values for column in columns_of(scope)),
    }
)


_LOADED = tuple(field.attname for field in Job._meta.concrete_fields if field.name in COLUMNS)


def load(rows: QuerySet[Job]) -> Iterator[Job]:
    """Load these columns of jobs. As :meth:`only`, whose instances take a fifth of the time of a whole group."""
    for values in rows.values_list(*_LOADED):
        row = Job.__new__(Job)
        row._state = state = ModelState()
        state.db, state.adding = rows.db, False
        vars(row).update(zip(_LOADED, values, strict=True))
        yield row


def is_possible(using: str) -> bool:
    """Whether the database supports it and no signal has receivers, which would need the whole row."""
    return move_statement.is_possible(using) and not (
        signals.job_failed.has_listeners(Job)
        or signals.job_failed.has_listeners(TimerJob)
        or signals.job_failed.has_listeners(SuspendedJob)
        or signals.job_dead_lettered.has_listeners(DeadLetterJob)
    )


def depart(
    using: str, departures: Sequence[Departure], changes: Changes, timings: Mapping[UUID, Mapping[str, Any]]
) -> dict[UUID, AbstractJob]:
    """Move locked rows and log those that have a timing; return the moved rows by id.

    Columns that were not loaded are fetched on access.
    """
    rows = {row.id: row for departure in departures for row in departure.rows}
    log = {pk: {**timing, **_logged(rows[pk], changes[pk])} for pk, timing in timings.items()}
    job_log.copy(using, LogState.FAILED, Job, log)
    moved: dict[UUID, AbstractJob] = {}
    for there, to, more in departures:
        each = _complete(there, changes)
        move_statement.transfer(using, Job, to, list(each), more, each)
        count_move(using, there, Job, to)
        moved |= {row.id: _as_moved(row, to, {**more, **each[row.id]}) for row in there}
    return moved


def _logged(row: AbstractJob, changes: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "exception_message": changes["exception_message"],
        "exception_stack": changes["exception_stack"],
        "retries": changes.get("retries", row.retries),
        "attempt": changes.get("attempts", row.attempts),
    }


def _complete(rows: Sequence[AbstractJob], changes: Changes) -> dict[UUID, Mapping[str, Any]]:
    """Extend the changes of these rows to the same columns, with the current value of unchanged ones."""
    names = list(dict.fromkeys(name for row in rows for name in changes[row.id]))
    return {
        row.id: changes[row.id]
        if len(changes[row.id]) == len(names)
        else {name: changes[row.id][name] if name in changes[row.id] else getattr(row, name) for name in names}
        for row in rows
    }


def _as_moved(row: AbstractJob, to: type[AbstractJob], changes: Mapping[str, Any]) -> AbstractJob:
    # Without from_db(), which takes a quarter of the time of a whole group. A missing attribute is a deferred field.
    moved = to.__new__(to)
    vars(moved).update(vars(row), lock_owner=None, revision=row.revision + 1, **changes)
    return moved
