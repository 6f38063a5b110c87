"""The job log: written in bulk, in the transaction that changes the jobs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from jobexec import clock
from jobexec.conf import get_settings
from jobexec.models import AbstractJob, JobLog, LogState

_LEVELS = {
    "none": frozenset[str](),
    "failures": frozenset({LogState.FAILED}),
    "activity": frozenset({LogState.FAILED, LogState.SUCCESSFUL, LogState.DELETED, LogState.CANCELLED}),
    "full": frozenset(LogState),
}
_COPIED = (
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
    """Whether the history level asks for rows of this state (Camunda writes its job log only at level FULL)."""
    return state in _LEVELS[get_settings().history_level]


def entry(row: AbstractJob, state: str, **values: Any) -> JobLog:
    """A log row about ``row``, not yet saved; ``values`` are its remaining columns."""
    copied = {name: getattr(row, name) for name in _COPIED}
    copied |= {"retries": row.retries, "attempt": row.attempts}
    timestamp = clock.now(row._state.db or "default")
    return JobLog(job_id=row.pk, state=state, timestamp=timestamp, **copied | values)


def write(using: str, state: str, entries: Iterable[JobLog]) -> None:
    """Save log rows of one state if the level asks for them. ``entries`` is not looked at otherwise."""
    if wants(state):
        JobLog.objects.using(using).bulk_create(entries)
