"""The job log, written in bulk in the transaction that changes the jobs, and read by job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from django.db.models import QuerySet

from jobexec import clock
from jobexec.conf import get_settings
from jobexec.exceptions import JobNotFound
from jobexec.identifiers import as_id
from jobexec.models import AbstractJob, JobLog, LogState

from ..sql.insert_select import Sql, insert_from
from ..targets.for_each import database_of
from ..targets.lookup import find_job

_LEVELS = {
    "none": frozenset[str](),
    "failures": frozenset({LogState.FAILED}),
    "activity": frozenset({LogState.FAILED, LogState.SUCCESSFUL, LogState.DELETED, LogState.CANCELLED}),
    "full": frozenset(LogState),
}
#: The columns of a log row that are copied from its job.
COPIED = (
    "job_definition_id",
    "handler_type",
    "category",
    "process_instance_id",
    "process_definition_key",
    "deployment_id",
    "tenant_id",
    "priority",
    "due_date",
)


def wants(state: str) -> bool:
    """Whether the history level includes rows of this state (Camunda writes its job log only at level FULL)."""
    return state in _LEVELS[get_settings().history_level]


def entry(row: AbstractJob, state: str, **values: Any) -> JobLog:
    """Build an unsaved log row about ``row``; ``values`` are its remaining columns."""
    copied = {name: getattr(row, name) for name in COPIED}
    copied |= {"retries": row.retries, "attempt": row.attempts}
    timestamp = clock.now(row._state.db or "default")
    return JobLog(job_id=row.pk, state=state, timestamp=timestamp, **copied | values)


def write(using: str, state: str, entries: Iterable[JobLog]) -> None:
    """Save log rows of one state if the history level includes it. Otherwise ``entries`` is not consumed."""
    if wants(state):
        JobLog.objects.using(using).bulk_create(entries)


def copy(using: str, state: str, source: type[AbstractJob], each: Mapping[UUID, Mapping[str, Any]]) -> None:
    """Write log rows inside the database, from rows still in ``source``; ``each`` has the remaining columns by id.

    Each must have the same remaining columns, which are all that are not copied from the rows.
    """
    if not each or not wants(state):
        return
    columns: dict[str, Any] = {name: Sql(f"source.{name}") for name in COPIED}
    columns |= {"job_id": Sql("source.id"), "state": state, "timestamp": clock.now(using)}
    insert_from(using, source, JobLog, list(each), columns, each)


def job_log(id: UUID | str, *, using: str | None = None) -> QuerySet[JobLog]:
    """Return the log of a job in the order of its events, even if the job is gone (Camunda: HistoricJobLogQuery).

    Its content depends on HISTORY_LEVEL. Raises :class:`~jobexec.exceptions.JobNotFound` for a string that is not a
    UUID.
    """
    wanted = as_id(id)
    if wanted is None:
        raise JobNotFound(f"There is no job {id!r}: expected a UUID.")
    return JobLog.objects.using(database_of(None, using)).filter(job_id=wanted).order_by("timestamp", "pk")


def stack_trace(id: UUID | str, *, using: str | None = None) -> str:
    """Return the stack trace of a job's last failure, '' if it has not failed (Camunda: getJobExceptionStacktrace).

    Raises :class:`~jobexec.exceptions.JobNotFound` if the job is in no table. The stack traces of earlier attempts, and
    of jobs that are gone, are in :func:`job_log`.
    """
    return find_job(id, database_of(None, using)).exception_stack
