"""Settle external jobs: a worker completed the job, or failed and reports the retries left.

Locks and their order: docs/explanation/locking.md, "External jobs".
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from jobexec import clock, signals
from jobexec.encryption import NOT_RECORDED, envelope_of, seal, stored_result
from jobexec.exceptions import JobNotFound, WorkerFailed
from jobexec.models import AbstractJob, DeadLetterJob, ExternalWorkerJob, LogState, ResultStatus

from ..history.incidents import FAILED_JOB, MESSAGE_SIZE_EXCEEDED
from ..history.task_attempts import is_task
from ..history.task_rows import End, write_ends
from ..notify import external_observers
from ..notify.signals import announce
from ..reports.failure_groups import count_failures, group_of_text
from ..resources.calls import report_call
from ..rows import tallies
from ..rows.move import move
from ..rows.routing import free_instances, may_hold, wake_for_permits
from ..settle.verdict import planned_date
from ..sql.delete import delete_rows
from ..sql.insert import json_text
from ..values.failure import MESSAGE_LENGTH
from ..values.run import Run
from . import log
from .callbacks import brought, callback_of, on_complete, opened, run_callback
from .complete_statement import Outcome, complete_at_once
from .find import check_lease, check_worker, in_transaction, lock_external
from .give_back import give_back, remove_cancelled_job
from .types import EVERYTHING, Caller, Completion
from .validation import check_size, checked_retries, checked_variables, moment_after, said, shown_texts, too_large

NO_RETRIES_LEFT = "No more retries left."
"""The incident's message if the worker gave none (Zeebe)."""


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
    """Complete a job: its ``on_complete`` runs as an ordinary job, or the row is deleted.

    ``variables`` are merged into those of the job and passed to ``on_complete``. ``local_variables`` belong to the job
    alone (Camunda 7), which has ended: they are validated and then dropped.

    The first completion counts, even after the deadline or after the job was given back, unless a worker with a lease
    has fetched it since. ``worker``: only if no other worker has fetched it since.

    Raises :class:`~jobexec.exceptions.JobNotFound` (it has ended, never existed, or is not visible to the caller),
    :class:`~jobexec.exceptions.JobStateError` (a dead letter, or suspended),
    :class:`~jobexec.exceptions.StaleLease`, :class:`~jobexec.exceptions.WrongWorker`,
    :class:`~jobexec.exceptions.NotAllowed`, and :class:`~jobexec.exceptions.InvalidJob` for variables that are not a
    JSON object or too large, also for the result of a job that keeps it.
    """
    completion = _checked(Completion(key, variables, local_variables, worker, lease, caller))
    (outcome,) = complete_at_once(using, [completion])
    if isinstance(outcome, Exception):
        raise outcome
    if outcome:
        return
    sent = dict(completion.variables or {})

    def verb() -> None:
        row = lock_external(using, key, "complete", caller)
        check_lease(row, lease, "complete", needed=True)
        check_worker(row, worker, "complete")
        log.write(using, LogState.SUCCESSFUL, row, caller, worker)
        callback, configuration = callback_of(row, on_complete)
        if callback is None:
            if is_task(row):
                _keep(using, row, sent, row.lock_owner or "" if worker is None else worker)
            _delete(using, row)
        else:
            given = {"variables": brought(configuration, callback, sent)}
            _still_there(run_callback(using, row, callback, given), key, "complete")
        announce(signals.job_completed, using, ExternalWorkerJob, jobs=[row])
        external_observers.completed(using, row.handler_type)
        report_call(using, row.resource)

    in_transaction(using, verb)


def complete_external_jobs(using: str, completions: Sequence[Completion]) -> list[Outcome]:
    """Complete the jobs that can share a statement, each as by :func:`complete_external_job`, and wait for no lock.

    Returns for each True if it is completed, and committed, or the error that :func:`complete_external_job` would
    raise, or False: then nothing has changed, and that function has to be called. Not for a transaction of the caller.
    """
    outcomes: list[Outcome] = [False] * len(completions)
    right: dict[int, Completion] = {}
    for place, completion in enumerate(completions):
        try:
            right[place] = _checked(completion)
        except Exception as error:
            outcomes[place] = error
    for place, outcome in zip(right, complete_at_once(using, list(right.values())), strict=True):
        outcomes[place] = outcome
    return outcomes


def _checked(completion: Completion) -> Completion:
    """Raise InvalidJob for variables that cannot be stored."""
    sent = checked_variables("variables", completion.variables)
    checked_variables("local_variables", completion.local_variables)
    return completion._replace(variables=sent)


def _keep(using: str, row: ExternalWorkerJob, sent: dict[str, Any], worker: str) -> None:
    """Store the variables of the completion as the job's result. Raises InvalidJob if they are too long."""
    check_size("variables", sent, "RESULT_MAX_SIZE")
    now, keep_for = clock.now(using), row.handler_configuration.get("keep_result")
    until = timedelta(seconds=keep_for) if keep_for else None
    stored = stored_result(json_text(sent), row.pk, secret=envelope_of(row.handler_configuration) is not None)
    end = End(ResultStatus.SUCCESSFUL, now, Run(now, 0.0, worker), (), json.loads(stored), until)
    write_ends(using, [row], {row.pk: end})


def _delete(using: str, row: ExternalWorkerJob) -> None:
    delete_rows(ExternalWorkerJob.objects.using(using).filter(pk=row.pk))
    free_instances(using, may_hold([row]))
    wake_for_permits(using, [row])
    tallies.count(using, tallies.batches_of([row]), completed=1)


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
    """Fail a job; the worker decides how many ``retries`` are left.

    With retries left, the job can be fetched again after ``back_off``, or if that is 0, when its retry plan says, if it
    has one; if it was suspended meanwhile, it moves to the suspended jobs. Without retries, it becomes a dead letter
    with an incident, whose message is ``message`` or "No more retries left.". The same happens if its variables
    together with those sent exceed EXTERNAL_MAX_PAYLOAD; those sent are then dropped. ``details`` is a stack trace or
    similar. ``variables`` are merged into those of the job, ``local_variables`` only into those that the next workers
    see. (Zeebe's variables of a failure are local.)

    Raises the same errors as :func:`complete_external_job`.
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
        _settle_failure(using, row, changes, retry_at if back_off else _planned(using, row, changes), caller, worker)

    in_transaction(using, verb)


def _failure(
    row: ExternalWorkerJob, left: int, sent: Mapping[str, dict[str, Any]], message: str, details: str
) -> dict[str, Any]:
    """The columns of the row after the failure."""
    message, details = shown_texts(row, sent, message, details)
    changed, configuration = any(sent.values()), dict(row.handler_configuration)
    sealed = envelope_of(configuration) is not None
    if sealed:
        message, details = NOT_RECORDED if message else "", ""
        configuration = dict(opened(row)) if changed else configuration
    for name, values in sent.items():
        if values:
            configuration[name] = {**(configuration.get(name) or {}), **values}
            configuration.setdefault("local", {})  # tells the next fetch that it may have grown
    grown = too_large(configuration) if changed else ""
    if grown:  # the job keeps its variables and needs an operator: it could not be handed to a worker
        configuration, left = dict(row.handler_configuration), 0
        message = f"{grown} {message}"[:MESSAGE_LENGTH].rstrip()
    elif sealed and changed:
        configuration = seal(configuration, row.handler_type, row.pk)
    configuration["failures"] = configuration.get("failures", 0) + 1
    return {
        "incident_type": MESSAGE_SIZE_EXCEEDED if grown else FAILED_JOB,
        "retries": left,
        "exception_message": message,
        "exception_stack": details,
        "handler_configuration": configuration,
        "lost_runs": 0,  # a reported failure proves that the job does not stop its workers from responding
    }


def _planned(using: str, row: ExternalWorkerJob, changes: Mapping[str, Any]) -> datetime | None:
    """When the plan of a job tries it again whose worker has named no pause; None for immediately."""
    if not row.retry_plan or not changes["retries"]:
        return None
    return planned_date(row, changes["handler_configuration"]["failures"], clock.now(using))


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
    report_call(using, row.resource, changes["exception_message"])
