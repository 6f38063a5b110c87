"""Callbacks of external jobs: when a worker ends its job, the row continues as an ordinary job with the same id."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from django.utils.dateparse import parse_duration

from jobexec import clock
from jobexec.conf import get_settings
from jobexec.encryption import envelope_of, seal, unseal
from jobexec.models import AbstractJob, BlockedJob, ExternalWorkerJob, Job

from ..rows.move import move
from ..rows.routing import wake_for

#: Columns that the options of a ``@job`` fill if the external job has no value of its own.
SAID_BY_OPTIONS = (
    "process_instance_id",
    "root_process_instance_id",
    "process_definition_key",
    "process_definition_id",
    "tenant_id",
    "correlation_id",
)


def opened(row: AbstractJob) -> Mapping[str, Any]:
    """The configuration of an external job, decrypted. Raises as :func:`~jobexec.encryption.unseal`."""
    configuration: Mapping[str, Any] = unseal(row.handler_configuration, row.handler_type, row.pk)
    return configuration


def callback_of(row: AbstractJob, find: Callable[[Mapping[str, Any]], Mapping[str, Any] | None]) -> Any:
    """The callback that ``find`` finds in the row, and the decrypted configuration; (None, {}) without one.

    The parts of a configuration beside its envelope only tell whether to decrypt it. Raises as
    :func:`~jobexec.encryption.unseal`.
    """
    if find(row.handler_configuration) is None:
        return None, {}
    configuration = opened(row)
    return find(configuration), configuration


def on_complete(configuration: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The callback for the completion of the job, or None."""
    return configuration.get("on_complete") or None


def on_error(configuration: Mapping[str, Any], code: str) -> Mapping[str, Any] | None:
    """The callback for a thrown error: the one for this code, or else the one for all other codes; or None."""
    by_code = configuration.get("on_error") or {}
    return by_code.get(code) or by_code.get("") or None


def brought(
    configuration: Mapping[str, Any], callback: Mapping[str, Any], sent: Mapping[str, Any]
) -> Mapping[str, Any]:
    """The variables that a callback gets: those of the job and, over them, those that the worker sent.

    ``sent_only``: a process knows its own variables, which may have changed since the job was made.
    """
    return sent if callback.get("sent_only") else {**(configuration.get("variables") or {}), **sent}


def run_callback(
    using: str, row: ExternalWorkerJob, callback: Mapping[str, Any], given: Mapping[str, Any]
) -> Job | BlockedJob | None:
    """Turn a row that the caller has locked into the ordinary job of a callback, with ``given`` as keyword arguments.

    The job loses its key, so that workers can no longer reach it, and starts afresh: it has its own retries and is due
    now; the failures of workers remain in the log. Its type still shows its origin. Returns None if another process
    changed the row.
    """
    changes = callback_columns(using, row, callback, given)
    to: type[Job] | type[BlockedJob] = Job if changes["resource"] is None else BlockedJob
    moved = move(row, to, **changes)
    if moved is not None:
        wake_for(using, [moved])
    return moved


def callback_columns(
    using: str, row: AbstractJob, callback: Mapping[str, Any], given: Mapping[str, Any]
) -> dict[str, Any]:
    """The columns in which the callback's job differs from the external job."""
    options = callback.get("columns") or {}
    timeout, tenant = options.get("timeout"), row.tenant_id or options.get("tenant_id", "")
    configuration: dict[str, Any] = {"args": [], "kwargs": {**(callback.get("kwargs") or {}), **given}}
    if options.get("encrypted") or envelope_of(row.handler_configuration):
        configuration = seal(configuration, callback["handler"], row.pk)
    return {
        "job_key": None,
        "handler_type": callback["handler"],
        "handler_configuration": configuration,
        "job_definition_id": options.get("job_definition_id", callback["handler"]),
        "category": options.get("category", _DEFAULTS.category),
        "retries": options.get("retries", _DEFAULTS.retries),
        "retry_plan": options.get("retry_plan", ""),
        "timeout": parse_duration(timeout) if timeout else None,
        "atomic": options.get("atomic", False),
        "exclusive": options.get("exclusive", row.exclusive),
        "deployment_id": options.get("deployment_id", row.deployment_id),
        "resource": options["resource"] if "resource" in options else get_settings().resources.of_tenant(tenant),
        "priority": row.priority if options.get("priority") is None else options["priority"],
        "task_backend": options.get("task_backend", ""),
        "failed_activity_id": options.get("failed_activity_id", ""),
        **{name: getattr(row, name) or options.get(name, "") for name in SAID_BY_OPTIONS},
        **_ANEW,
        "due_date": clock.now(using),
    }


#: Options that are not given take the default of their column.
_DEFAULTS = Job()

_ANEW: dict[str, Any] = {
    "attempts": 0,
    "lost_runs": 0,
    "conflicts": 0,
    "snoozes": 0,
    "unknown_since": None,
    "cancel_requested": False,
    "exception_message": "",
    "exception_stack": "",
}
