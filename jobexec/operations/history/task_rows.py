"""Rows of TaskResult: inserted with the first attempt of a task, and extended by each further one.

The writer has locked the job, so there is no concurrent writer of its result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID

from django.db.models import QuerySet

from jobexec.models import AbstractJob, JobType, ResultStatus, TaskResult

from ..sql import insert_select
from ..sql.insert_select import Sql, insert_from
from ..sql.locks import names_conflict_target
from ..values.run import Run

#: Limits for the attempts of one task: the first and last errors kept, characters of each traceback, and nodes.
FIRST_ERRORS, LAST_ERRORS, TRACEBACK_LENGTH, WORKERS = 10, 40, 10_000, 1000

_PAGE = 100  # rows per query
_LETTERS = 2_000_000  # characters in the errors of one statement

_COPIED = (
    *("id", "handler_type", "handler_configuration", "category", "priority"),
    *("process_instance_id", "tenant_id", "create_time"),
)
_RUN_AFTER = Sql(f"CASE WHEN source.type = '{JobType.TIMER}' AND source.attempts = 0 THEN source.due_date END")
_OWN = ("status", "first_time", "last_time", "end_time", "expires_at", "return_value", "errors", "workers")
_UPDATED = ("priority", "category", *_OWN)


J = TypeVar("J", bound=AbstractJob)


@dataclass(slots=True)
class End:
    """The end of an attempt, or of a task without one (``run`` is None). A task without ``end_time`` is retried.

    ``keep_for``: how long the result is kept, if not for RESULT_TTL.
    """

    status: ResultStatus
    end_time: datetime | None
    run: Run | None = None
    errors: Sequence[dict[str, str]] = ()
    return_value: Any = None
    keep_for: timedelta | None = None


def end_of(run: Run) -> datetime:
    """Return the time at which a run ended."""
    return run.started_at + timedelta(seconds=run.duration)


def as_written(rows: QuerySet[J]) -> QuerySet[J]:
    """Restrict the rows to the columns that :func:`write_ends` needs."""
    return rows.only("pk") if insert_select.is_possible(rows.db) else rows


def write_ends(using: str, rows: Sequence[AbstractJob], ends: Mapping[UUID, End]) -> None:
    """Add these ends, by id, to the results of tasks; the caller has locked or just inserted their rows of one table.

    Runs inside the database where possible: columns of the rows that were not loaded stay there.
    """
    for start in range(0, len(rows), _PAGE):
        page = rows[start : start + _PAGE]
        for piece in _pieces(_added(using, {row.pk: ends[row.pk] for row in page})):
            _upsert(using, [row for row in page if row.pk in piece], piece)


def _added(using: str, ends: Mapping[UUID, End]) -> dict[UUID, dict[str, Any]]:
    """Return the changed columns by id: the existing values extended by the new ends."""
    found = TaskResult.objects.using(using).filter(pk__in=ends)
    earlier = {row[0]: row[1:] for row in found.values_list("pk", "errors", "workers", "first_time", "last_time")}
    return {pk: _columns(end, *earlier.get(pk, ([], [], None, None))) for pk, end in ends.items()}


def _columns(end: End, errors: Any, workers: Any, first: datetime | None, last: datetime | None) -> dict[str, Any]:
    run = end.run
    return {
        "status": end.status,
        "first_time": first or (run and run.started_at),
        "last_time": run.started_at if run else last,
        "end_time": end.end_time,
        "expires_at": end.end_time + end.keep_for if end.end_time and end.keep_for else None,
        "return_value": end.return_value,
        "errors": _bounded(errors, end.errors, FIRST_ERRORS, LAST_ERRORS),
        "workers": _bounded(workers, [run.node] if run else [], 1, WORKERS - 1),
    }


def _bounded(there: Any, more: Sequence[Any], first: int, last: int) -> list[Any]:
    """Extend a list, but keep only its first and last entries, so that it does not grow without limit."""
    every = [*(there if isinstance(there, list) else []), *more]
    return every if len(every) <= first + last else [*every[:first], *every[-last:]]


def _pieces(each: Mapping[UUID, dict[str, Any]]) -> Iterator[dict[UUID, dict[str, Any]]]:
    """Yield groups that fit into a statement: MariaDB refuses statements of 16 megabytes."""
    piece: dict[UUID, dict[str, Any]] = {}
    letters = 0
    for pk, columns in each.items():
        letters += sum(len(error["traceback"]) for error in columns["errors"])
        if piece and letters > _LETTERS:
            yield piece
            piece, letters = {}, 0
        piece[pk] = columns
    if piece:
        yield piece


def _upsert(using: str, rows: Sequence[AbstractJob], each: Mapping[UUID, dict[str, Any]]) -> None:
    if insert_select.is_possible(using):
        columns: dict[str, Any] = {name: Sql(f"source.{name}") for name in _COPIED}
        columns |= {"backend": Sql("source.task_backend"), "run_after": _RUN_AFTER}
        insert_from(using, type(rows[0]), TaskResult, list(each), columns, each, _UPDATED)
        return
    target = ["id"] if names_conflict_target(using) else None
    made = [_result(row, each[row.pk]) for row in rows]
    TaskResult.objects.using(using).bulk_create(
        made, update_conflicts=True, update_fields=_UPDATED, unique_fields=target
    )


def _result(row: AbstractJob, columns: dict[str, Any]) -> TaskResult:
    own = row.type == JobType.TIMER and not row.attempts
    copied = {name: getattr(row, name) for name in _COPIED}
    return TaskResult(**copied, backend=row.task_backend, run_after=row.due_date if own else None, **columns)
