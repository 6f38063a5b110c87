"""Find an external job by its key, and check whether the caller may do what it asks for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar
from uuid import UUID

from django.db import OperationalError, connections
from django.db.models import CharField, Value

from jobexec.exceptions import JobNotFound, JobStateError, NotAllowed, StaleLease, WrongWorker
from jobexec.models import EXTERNAL_TABLES, AbstractJob, ExternalWorkerJob, Incident, IncidentState

from ..audit import part
from ..history.incidents import UNHANDLED_ERROR
from ..sql.dialect import dialect
from ..sql.errors import is_conflict
from ..sql.locks import lock_rows
from .types import EVERYTHING, Caller

R = TypeVar("R")

_BY_STATE = {table.state: table for table in EXTERNAL_TABLES}
_LOOKS = 100  # attempts at a job that moves each time
_TRIES = 5
_MOST = 2**63 - 1


def find_external_job(using: str, key: int, *, caller: Caller = EVERYTHING) -> AbstractJob:
    """The row with this key, in one of the :data:`~jobexec.models.EXTERNAL_TABLES`.

    Raises :class:`~jobexec.exceptions.JobNotFound` if it does not exist or the caller may not see it, and
    :class:`~jobexec.exceptions.NotAllowed` if the caller may not access its type.
    """
    return _found(using, key, "find", caller, lock=False)


def lock_anywhere(using: str, key: int, verb: str, caller: Caller) -> AbstractJob:
    """Like :func:`find_external_job`, but lock the row until the transaction ends."""
    return _found(using, key, verb, caller, lock=True)


def lock_external(using: str, key: int, verb: str, caller: Caller) -> ExternalWorkerJob:
    """The ExternalWorkerJob with this key, locked until the transaction ends.

    Raises :class:`~jobexec.exceptions.JobStateError` if it is in another table, and the errors of
    :func:`find_external_job`.
    """
    row = _lock_directly(using, key) or _found(using, key, verb, caller, lock=True)
    check_caller(row, key, verb, caller)
    if not isinstance(row, ExternalWorkerJob):
        raise JobStateError(f"Expected to {verb} job with key '{key}', but it is in state '{_state(using, row)}'.")
    return row


def check_caller(row: AbstractJob, key: int, verb: str, caller: Caller) -> None:
    """Raise the error for a caller that may not see this job, or not work on it."""
    if not caller.may_see(row.tenant_id):
        raise _not_found(key, verb)
    if not caller.may_fetch(row.handler_type):
        raise NotAllowed(f"The client {caller.name!r} may not work on job with key '{key}': its type is not allowed.")


def check_worker(row: ExternalWorkerJob, worker: str | None, verb: str) -> None:
    """Raise WrongWorker unless ``worker`` fetched the job last; its deadline may have passed (Camunda 7)."""
    if worker is not None and worker != row.lock_owner:
        last = "no worker has fetched it" if row.lock_owner is None else f"it was last fetched by {row.lock_owner!r}"
        raise WrongWorker(f"Expected to {verb} job with key '{row.job_key}' as worker {worker!r}, but {last}.")


def check_lease(row: ExternalWorkerJob, lease: str | None, verb: str, *, needed: bool) -> None:
    """Raise StaleLease for a wrong token; ``needed``: also without a token if the job is leased. "" is no token."""
    if (lease or needed) and (lease or "") != row.lease_token:
        got = "no lease token was given" if not lease else "the lease token is not from the last fetch"
        raise StaleLease(f"Expected to {verb} job with key '{row.job_key}', but {got}.")


def in_transaction(using: str, verb: Callable[[], R]) -> R:
    """Call ``verb`` in a transaction and return its result; an error does not break the caller's transaction.

    A database conflict (a deadlock, a busy file) rolls everything back; the call is then repeated, unless the caller
    has a transaction of its own.
    """
    for left in reversed(range(_TRIES)):
        try:
            with part(using):
                return verb()
        except OperationalError as error:
            if not left or connections[using].in_atomic_block or not is_conflict(error):
                raise
    raise AssertionError  # the last try returns or raises


def _not_found(key: Any, verb: str) -> JobNotFound:
    return JobNotFound(f"Expected to {verb} job with key '{key}', but no such job was found.")


def _found(using: str, key: int, verb: str, caller: Caller, *, lock: bool) -> AbstractJob:
    # It may move between the two statements; the next attempt then finds it in its new table.
    for _ in range(_LOOKS):
        place = _place(using, key)
        if place is None:
            break
        table, pk = place
        rows = table._base_manager.using(using).filter(pk=pk, job_key=key)
        row = next(iter(lock_rows(rows) if lock else rows), None)
        if row is not None:
            check_caller(row, key, verb, caller)
            return row
    raise _not_found(key, verb)


def _place(using: str, key: int) -> tuple[type[AbstractJob], UUID] | None:
    """One UNION ALL statement, hence one snapshot: a moving job is seen in exactly one of the tables."""
    if not 0 < key <= _MOST:
        return None
    first, *others = (_rows_of(table, key, using) for table in EXTERNAL_TABLES)
    found = next(iter(first.union(*others, all=True)), None)
    return None if found is None else (_BY_STATE[found[1]], found[0])


def _rows_of(table: type[AbstractJob], key: int, using: str) -> Any:
    rows = table._base_manager.using(using).filter(job_key=key)
    return rows.annotate(table_state=Value(table.state, output_field=CharField())).values_list("pk", "table_state")


def _lock_directly(using: str, key: int) -> ExternalWorkerJob | None:
    """Lock the row in one statement by its unique key; not on InnoDB.

    InnoDB locks a row that is found through a secondary index in the opposite order to a transaction that deletes it,
    and the two may deadlock.
    """
    if not dialect(using).locks_by_any_index or not 0 < key <= _MOST:
        return None
    return next(iter(lock_rows(ExternalWorkerJob.objects.using(using).filter(job_key=key))), None)


def _state(using: str, row: AbstractJob) -> str:
    """The state's name in Zeebe."""
    if row.runnable:
        return "FAILED" if row.handler_configuration.get("failures") else "CREATED"
    if not row.dead:
        return "SUSPENDED"
    incidents = Incident.objects.using(using).filter(job_id=row.pk, state=IncidentState.OPEN, type=UNHANDLED_ERROR)
    return "ERROR_THROWN" if incidents.exists() else "FAILED"
