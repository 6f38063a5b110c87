"""Errors that external workers throw: the project handles them, or they become incidents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jobexec import clock, signals
from jobexec.encryption import NOT_RECORDED, envelope_of
from jobexec.exceptions import ErrorThrown, JobNotFound
from jobexec.models import AbstractJob, DeadLetterJob, ExternalWorkerJob, LogState

from ..history.incidents import UNHANDLED_ERROR
from ..notify.signals import announce
from ..reports.failure_groups import count_failures, group_of_text
from ..resources.calls import report_call
from ..rows.move import move
from ..values.failure import MESSAGE_LENGTH
from . import log
from .callbacks import brought, callback_of, on_error, run_callback
from .find import check_lease, check_worker, in_transaction, lock_external
from .give_back import remove_cancelled_job
from .types import EVERYTHING, Caller
from .validation import checked_code, checked_variables, said, shown_texts


def throw_external_error(
    using: str,
    key: int,
    *,
    code: str,
    message: str = "",
    variables: Mapping[str, Any] | None = None,
    worker: str | None = None,
    lease: str | None = None,
    caller: Caller = EVERYTHING,
) -> None:
    """Throw a business error with a ``code``, which is not a failure of the worker (Zeebe: ThrowError; a BPMN error).

    The job's ``on_error`` for this code, or for all others, runs as an ordinary job, with ``variables`` (those of the
    job, overridden by those given here), ``error_code`` and ``error_message``. If there is none, the job becomes a dead
    letter with an incident of the type ``unhandledError``, and keeps its retries; the worker's call still succeeds.

    Raises the errors of :func:`~jobexec.operations.external.settle.complete_external_job`, and
    :class:`~jobexec.exceptions.InvalidJob` for a blank code.
    """
    checked_code(code)
    text = said("message", message)
    sent = checked_variables("variables", variables)

    def verb() -> None:
        row = lock_external(using, key, "throw an error for", caller)
        check_lease(row, lease, "throw an error for", needed=True)
        check_worker(row, worker, "throw an error for")
        sealed = envelope_of(row.handler_configuration) is not None
        recorded = NOT_RECORDED if sealed and text else text
        callback, configuration = callback_of(row, lambda found: on_error(found, code))
        if callback is None and row.cancel_requested:
            shown, _ = shown_texts(row, sent, _said_of(code, recorded))
            remove_cancelled_job(using, row, caller, worker, exception_message=shown)
        elif callback is None:
            _open_incident(using, row, code, recorded, sent, caller, worker)
        else:
            _log(using, row, _said_of(code, recorded), sent, caller, worker)
            outer = brought(configuration, callback, sent)
            given = {"variables": outer, "error_code": code, "error_message": text[:MESSAGE_LENGTH]}
            _tell(using, row, run_callback(using, row, callback, given), code, text)
        if not row.cancel_requested:
            report_call(using, row.resource, shown_texts(row, sent, _said_of(code, recorded))[0], code)

    in_transaction(using, verb)


def _said_of(code: str, message: str) -> str:
    return f"{code}: {message}" if message else code


def _open_incident(
    using: str,
    row: ExternalWorkerJob,
    code: str,
    message: str,
    sent: Mapping[str, Any],
    caller: Caller,
    worker: str | None,
) -> None:
    text = f"Nothing catches the error {_said_of(code, message)}"
    shown, alike = _log(using, row, text, sent, caller, worker)
    changes = {"exception_message": shown, "exception_stack": "", "fingerprint": alike, "died_at": clock.now(using)}
    moved = move(row, DeadLetterJob, incident_type=UNHANDLED_ERROR, **changes)
    _tell(using, row, moved, code, message)
    count_failures(using, [row], alike, shown)


def _log(
    using: str, row: ExternalWorkerJob, text: str, sent: Mapping[str, Any], caller: Caller, worker: str | None
) -> tuple[str, str]:
    """Write a log entry; return its message and fingerprint."""
    shown, _ = shown_texts(row, sent, text)
    alike = group_of_text(using, row.handler_type, shown)
    log.write(using, LogState.FAILED, row, caller, worker, exception_message=shown, fingerprint=alike)
    return shown, alike


def _tell(using: str, row: ExternalWorkerJob, moved: AbstractJob | None, code: str, message: str) -> None:
    if moved is None:  # where rows cannot be locked
        raise JobNotFound(f"Expected to throw an error for job with key '{row.job_key}', but no such job was found.")
    dead = isinstance(moved, DeadLetterJob)
    signal = signals.job_dead_lettered if dead else signals.job_failed
    error = ErrorThrown(code, message[:MESSAGE_LENGTH])
    error.job_type = row.handler_type
    announce(signal, using, type(moved), job=moved, error=error)
