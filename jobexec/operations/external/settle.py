"""The end of what a worker outside does: completed, or failed with the retries that it says are left.

What is locked and in which order: docs/explanation/locking.md, "External jobs".
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from jobexec import clock, signals
from jobexec.exceptions import JobNotFound, WorkerFailed
from jobexec.models import AbstractJob, DeadLetterJob, ExternalWorkerJob, LogState

from ..history.incidents import FAILED_JOB, MESSAGE_SIZE_EXCEEDED
from ..notify import external_observers
from ..notify.signals import announce
from ..reports.failure_groups import count_failures, group_of_text
from ..rows.move import move
from ..rows.routing import free_instances, may_hold
from ..sql.locks import delete_rows
from ..values.failure import MESSAGE_LENGTH
from . import log
from .callbacks import on_complete, run_callback
from .complete_statement import complete_at_once
from .find import check_lease, check_worker, in_transaction, lock_external
from .give_back import give_back, remove_cancelled_job
from .types import EVERYTHING, Caller
from .validation import checked_retries, checked_variables, moment_after, said, shown_texts, too_large

NO_RETRIES_LEFT = "No more retries left."
"""The message of an incident whose worker gave none (Zeebe)."""


def complete_external_job(
    using: str,
    key: int,
    variables: Mapping[str, Any] | None = None,
    *,
    local_variables: Mapping[str, Any] | None = None,
    worker: str | None = None,
    lease: str | None = None,
    caller: Caller = EVERYTHING,
) -> None:
    """A worker has done the job: its ``on_complete`` runs as an ordinary job, or the row is deleted.

    ``variables`` are added to those of the job and given to ``on_complete``. ``local_variables`` belong to the job
    alone (Camunda 7), which is over: they are checked and go no further.

    Whoever comes first has completed it, also when its deadline is over or it was given back, as long as nobody who
    fetched it later with a lease has it. ``worker``: only if no other worker has fetched it since.

    Raises :class:`~jobexec.exceptions.JobNotFound` (it is over, or was never there, or is not for this caller),
    :class:`~jobexec.exceptions.JobStateError` (a dead letter, or suspended),
    :class:`~jobexec.exceptions.StaleLease`, :class:`~jobexec.exceptions.WrongWorker`,
    :class:`~jobexec.exceptions.NotAllowed`, and :class:`~jobexec.exceptions.InvalidJob` for variables that are no JSON
    object or too large.
    """
    sent = checked_variables("variables", variables)
    checked_variables("local_variables", local_variables)
    if complete_at_once(using, key, sent, worker, lease, caller):
        return

    def verb() -> None:
        row = lock_external(using, key, "complete", caller)
        check_lease(row, lease, "complete", needed=True)
        check_worker(row, worker, "complete")
        log.write(using, LogState.SUCCESSFUL, row, caller, worker)
        callback = on_complete(row.handler_configuration)
        if callback is None:
            _delete(using, row)
        else:
            outer = {**(row.handler_configuration.get("variables") or {}), **sent}
            _still_there(run_callback(using, row, callback, {"variables": outer}), key, "complete")
        announce(signals.job_completed, using, ExternalWorkerJob, jobs=[row])
        external_observers.completed(using, row.handler_type)

    in_transaction(using, verb)


def _delete(using: str, row: ExternalWorkerJob) -> None:
    delete_rows(ExternalWorkerJob.objects.using(using).filter(pk=row.pk))
    free_instances(using, may_hold([row]))


def _still_there(moved: AbstractJob | None, key: int, verb: str) -> AbstractJob:
    if moved is None:  # where rows cannot be locked
        raise JobNotFound(f"Expected to {verb} job with key '{key}', but no such job was found.")
    return moved


def fail_external_job(
    using: str,
    key: int,
    *,
    retries: int,
    message: str = "",
    details: str = "",
    back_off: timedelta = timedelta(0),
    variables: Mapping[str, Any] | None = None,
    local_variables: Mapping[str, Any] | None = None,
    worker: str | None = None,
    lease: str | None = None,
    caller: Caller = EVERYTHING,
) -> None:
    """A worker has failed, and says how many ``retries`` are left: that number is stored.

    With retries left the job can be fetched again after ``back_off``; one that is suspended meanwhile waits among the
    suspended jobs. Without, it becomes a dead letter with an incident, whose message is ``message`` or
    "No more retries left."; so it does when its variables with those sent are larger than EXTERNAL_MAX_PAYLOAD, and
    what was sent is dropped. ``details`` is a stack trace or the like. ``variables`` are added to those of the job,
    ``local_variables`` only to what the workers see who fetch it next. (Zeebe's variables of a failure are local.)

    Raises what :func:`complete_external_job` does.
    """
    left = checked_retries(retries)
    retry_at = moment_after(using, "back_off", back_off)
    texts = said("message", message), said("details", details)
    sent = {
        "variables": checked_variables("variables", variables),
        "local": checked_variables("local_variables", local_variables),
    }

    def verb() -> None:
        row = lock_external(using, key, "fail", caller)
        check_lease(row, lease, "fail", needed=True)
        check_worker(row, worker, "fail")
        changes = _failure(row, left, sent, *texts)
        _settle_failure(using, row, changes, retry_at if back_off else None, caller, worker)

    in_transaction(using, verb)


def _failure(
    row: ExternalWorkerJob, left: int, sent: Mapping[str, dict[str, Any]], message: str, details: str
) -> dict[str, Any]:
    """What the row says after it."""
    message, details = shown_texts(row, sent, message, details)
    configuration = dict(row.handler_configuration)
    for name, values in sent.items():
        if values:
            configuration[name] = {**(configuration.get(name) or {}), **values}
            configuration.setdefault("local", {})  # says to whoever fetches that it may have grown
    grown = too_large(configuration) if any(sent.values()) else ""
    if grown:  # the job stays as it was, and needs a person: no worker could be given it
        configuration, left = dict(row.handler_configuration), 0
        message = f"{grown} {message}"[:MESSAGE_LENGTH].rstrip()
    configuration["failures"] = configuration.get("failures", 0) + 1
    return {
        "incident_type": MESSAGE_SIZE_EXCEEDED if grown else FAILED_JOB,
        "retries": left,
        "exception_message": message,
        "exception_stack": details,
        "handler_configuration": configuration,
        "lost_runs": 0,  # it does not keep its workers from answering
    }


def _settle_failure(
    using: str,
    row: ExternalWorkerJob,
    changes: dict[str, Any],
    retry_at: datetime | None,
    caller: Caller,
    worker: str | None,
) -> None:
    if row.cancel_requested:
        remove_cancelled_job(using, row, caller, worker, exception_message=changes["exception_message"])
        return
    alike = group_of_text(using, row.handler_type, changes["exception_message"], changes["exception_stack"])
    told = {name: changes[name] for name in ("retries", "exception_message", "exception_stack")}
    log.write(using, LogState.FAILED, row, caller, worker, **told, fingerprint=alike)
    moved: AbstractJob | None
    kind = changes.pop("incident_type")
    if changes["retries"]:
        moved = give_back(using, row, due_date=retry_at, lease_token=row.lease_token, **changes)
        signal, error = signals.job_failed, WorkerFailed(*filter(None, [changes["exception_message"]]))
    else:
        changes |= {"exception_message": changes["exception_message"] or NO_RETRIES_LEFT, "fingerprint": alike}
        moved = move(row, DeadLetterJob, incident_type=kind, **changes, died_at=clock.now(using))
        signal, error = signals.job_dead_lettered, WorkerFailed(changes["exception_message"])
    job = _still_there(moved, row.job_key or 0, "fail")
    count_failures(using, [row], alike, changes["exception_message"])
    announce(signal, using, type(job), job=job, error=error)
