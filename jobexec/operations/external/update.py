"""Changes by workers and operators to external jobs that do not end them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from jobexec import clock, signals
from jobexec.exceptions import JobStateError, WrongWorker
from jobexec.models import AbstractJob, ExternalWorkerJob, SuspendedJob

from ..audit import audited, note_jobs, old_of
from ..notify.signals import announce
from ..notify.wake_workers import wake_workers_on_commit
from ..rows.external_exclusive import take
from ..rows.suspension_cover import covered_rows
from ..values.arguments import check_retries
from ..values.ranking import check_priority, reranked
from .find import check_lease, check_worker, in_transaction, lock_anywhere, lock_external
from .give_back import give_back, remove_cancelled_job
from .types import EVERYTHING, Caller
from .unfetchable import without_permit
from .validation import checked_name, moment_after


def extend_external_deadline(
    using: str,
    key: int,
    timeout: timedelta,
    *,
    worker: str | None = None,
    lease: str | None = None,
    caller: Caller = EVERYTHING,
) -> None:
    """Set the deadline of a job that a worker holds to ``timeout`` from now, which may also be earlier than before.

    Zeebe's UpdateJobTimeout, Camunda 7's extendLock. Raises :class:`~jobexec.exceptions.JobStateError` if no worker
    holds it or its deadline has passed, and the errors of
    :func:`~jobexec.operations.external.settle.complete_external_job`; a lease token is checked only if given.
    """
    moment_after(using, "timeout", timeout)

    def verb() -> None:
        row = lock_external(using, key, "update the timeout of", caller)
        check_lease(row, lease, "update the timeout of", needed=False)
        check_worker(row, worker, "update the timeout of")
        if not row.locked:
            raise JobStateError(f"Expected to update the timeout of job with key '{key}', but no worker holds it.")
        deadline = moment_after(using, "timeout", timeout)
        _update(row, lock_expiration_time=deadline, available_at=deadline)
        if row.lock_expiration_time is not None and deadline < row.lock_expiration_time:
            wake_workers_on_commit(using, [row.handler_type])

    in_transaction(using, verb)


def lock_external_job(using: str, key: int, worker: str, timeout: timedelta, *, caller: Caller = EVERYTHING) -> None:
    """Lock a particular job for a worker, as if it had fetched it; the worker that holds it may repeat the call.

    (Camunda 7: lock.) Raises :class:`~jobexec.exceptions.WrongWorker` while another worker holds it,
    :class:`~jobexec.exceptions.JobStateError` if it is not available yet, suspended or cancelled, if it was leased, if
    another job of its process instance is being worked on, or if the circuit breaker of its resource has opened, and
    the errors of :func:`~jobexec.operations.external.settle.complete_external_job`.
    """
    checked_name("worker", worker)
    moment_after(using, "timeout", timeout)

    def verb() -> None:
        row = lock_external(using, key, "lock", caller)
        holds = row.locked and row.lock_owner == worker
        if row.locked and not holds:
            raise WrongWorker(f"Expected to lock job with key '{key}', but the worker {row.lock_owner!r} holds it.")
        if not holds:
            _refuse_unavailable(using, row, key)
        deadline = moment_after(using, "timeout", timeout)
        _update(row, lock_expiration_time=deadline, available_at=deadline, **({} if holds else _fetched(row, worker)))

    in_transaction(using, verb)


def _refuse_unavailable(using: str, row: ExternalWorkerJob, key: int) -> None:
    reason = None
    if row.available_at is not None and row.available_at > clock.now(using):
        reason = f"it is not available before {row.available_at}"
    elif row.cancel_requested:
        reason = "it was cancelled"
    elif row.lease_token:
        reason = "it was leased, and only workers that ask for a lease may have it"
    elif covered_rows(using, [row]):
        reason = "it is suspended"
    elif without_permit(using, [row]):
        reason = f"the circuit breaker of its resource {row.resource!r} is not closed"
    elif not take(using, [row]):
        reason = f"another job of the process instance {row.process_instance_id!r} is being worked on"
    if reason is not None:
        raise JobStateError(f"Expected to lock job with key '{key}', but {reason}.")


def _fetched(row: ExternalWorkerJob, worker: str) -> dict[str, Any]:
    """The changes of a fetch besides the deadline."""
    missed = row.lock_owner is not None
    return {
        "lock_owner": worker,
        "lease_token": "",
        "attempts": row.attempts + 1,
        "lost_runs": row.lost_runs + missed,
        "revision": row.revision + 1,
        "due_date": None,
    }


def unlock_external_job(using: str, key: int, *, worker: str | None = None, caller: Caller = EVERYTHING) -> None:
    """Take a job from its worker, so that others may fetch it immediately (Camunda 7: unlock).

    It costs no retry, and a job that was leased is for all workers again. A job that no worker has fetched is left
    unchanged. A pending suspension or cancellation takes effect now. Raises the errors of
    :func:`~jobexec.operations.external.settle.complete_external_job`; no lease is required.
    """

    def verb() -> None:
        row = lock_external(using, key, "unlock", caller)
        check_worker(row, worker, "unlock")
        if row.lock_owner is None:
            return
        if row.cancel_requested:
            remove_cancelled_job(using, row, caller, worker)
            return
        moved = give_back(using, row, due_date=None)
        if isinstance(moved, SuspendedJob):
            announce(signals.job_suspended, using, SuspendedJob, jobs=[moved])

    in_transaction(using, verb)


@audited
def set_external_retries(
    using: str, key: int, retries: int, *, lease: str | None = None, caller: Caller = EVERYTHING
) -> None:
    """Set the job's retries, at least 1, in whichever table it is. A dead letter stays a dead letter (Zeebe).

    To make a dead letter available again, resolve its incident:
    :func:`~jobexec.operations.external.incidents.resolve_external_incident`. Raises
    :class:`~jobexec.exceptions.InvalidJob`, and the errors of
    :func:`~jobexec.operations.external.find.find_external_job`; :class:`~jobexec.exceptions.StaleLease` only if a lease
    token is given.
    """
    check_retries(retries)

    def verb() -> None:
        _set(using, _to_change(using, key, "update the retries of", lease, caller), retries=retries)

    in_transaction(using, verb)


@audited
def set_external_priority(
    using: str, key: int, priority: int, *, lease: str | None = None, caller: Caller = EVERYTHING
) -> None:
    """Change the job's priority, in whichever table it is; higher is fetched sooner. Its waiting time still counts.

    Raises the same errors as :func:`set_external_retries`.
    """
    check_priority(priority)

    def verb() -> None:
        row = _to_change(using, key, "update the priority of", lease, caller)
        _set(using, row, priority=priority, rank=reranked(using, row.rank, priority - row.priority))

    in_transaction(using, verb)


def _set(using: str, row: AbstractJob, **changes: Any) -> None:
    _update(row, **changes)
    note_jobs(using, type(row), [row.pk], [row.tenant_id], old_of(row))


def _to_change(using: str, key: int, verb: str, lease: str | None, caller: Caller) -> AbstractJob:
    row = lock_anywhere(using, key, verb, caller)
    if isinstance(row, ExternalWorkerJob):
        check_lease(row, lease, verb, needed=False)
    return row


def _update(row: AbstractJob, **changes: Any) -> None:
    type(row)._base_manager.using(row._state.db or "default").filter(pk=row.pk).update(**changes)
