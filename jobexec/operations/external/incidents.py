"""Resolve incidents of external jobs, so that workers may fetch the job again."""

from __future__ import annotations

from django.db.models import QuerySet

from jobexec import signals
from jobexec.exceptions import DuplicateJob, IncidentNotFound, JobStateError, NotAllowed
from jobexec.models import DeadLetterJob, Incident, IncidentState, SuspendedJob

from ..audit import audited, note
from ..enqueue.batch_drivers import reopen
from ..enqueue.unique import take_back
from ..notify.signals import announce
from ..rows.move import move
from ..rows.requeued import requeued_columns
from ..rows.routing import table_for, wake_for
from ..rows.suspension_cover import covered_rows
from ..sql.locks import lock_rows
from .find import in_transaction
from .types import EVERYTHING, Caller

#: The attempts of a job of a process whose incident is resolved, as those of a job that an operator requeues.
_RETRIES = 3


@audited
def resolve_external_incident(using: str, incident_key: int, *, caller: Caller = EVERYTHING) -> None:
    """Make the incident's job available again immediately, with the retries that it was given meanwhile.

    (Zeebe: ResolveIncident.) A job of a process, which cannot be given retries before, gets new ones. A job that a
    suspension covers goes to the suspended jobs. Raises
    :class:`~jobexec.exceptions.IncidentNotFound` if there is no open incident that the caller may see,
    :class:`~jobexec.exceptions.JobStateError` while the job has no retries
    (:func:`~jobexec.operations.external.update.set_external_retries`) or another job has its unique key, and
    :class:`~jobexec.exceptions.NotAllowed` for types that the caller may not access.
    """
    in_transaction(using, lambda: _resolve(using, incident_key, caller))


def _resolve(using: str, key: int, caller: Caller) -> None:
    incident = _open_incident(using, key, caller)
    table, job_id = DeadLetterJob.objects.using(using), incident.job_id
    row = None if job_id is None else next(iter(lock_rows(table.filter(pk=job_id))), None)
    # Between the two statements another call may have resolved it, and the job may have failed again since.
    if row is None or not _open(using, key).exists():
        raise _not_found(key)
    retries = row.retries if row.job_key is not None else max(row.retries, _RETRIES)
    if retries < 1:
        raise JobStateError(
            f"Expected to resolve incident with key '{key}', but the job with key '{row.job_key}' has no retries left."
        )
    reopen(using, [row])
    try:
        take_back(row)
    except DuplicateJob as error:
        raise JobStateError(f"Expected to resolve incident with key '{key}', but {error}") from error
    row.suspend_requested = False  # as for a job that an operator requeues
    to = SuspendedJob if covered_rows(using, [row]) else table_for(row, later=False)
    moved = move(row, to, **requeued_columns(retries), due_date=None)
    if moved is None:
        raise _not_found(key)
    scope = {"incident_key": str(key), "job": str(row.pk)}
    note(using, "incident", incident.pk, tenant=row.tenant_id, scope=scope)
    announce(signals.job_requeued, using, type(moved), jobs=[moved])
    if to is not SuspendedJob:
        wake_for(using, [moved])


def _open(using: str, key: int) -> QuerySet[Incident]:
    return Incident.objects.using(using).filter(incident_key=key, state=IncidentState.OPEN)


def _open_incident(using: str, key: int, caller: Caller) -> Incident:
    incident = _open(using, key).first() if 0 < key < 2**63 else None
    if incident is None or not caller.may_see(incident.tenant_id):
        raise _not_found(key)
    if not caller.may_fetch(incident.handler_type):
        raise NotAllowed(f"The client {caller.name!r} may not resolve this incident: its job's type is not allowed.")
    return incident


def _not_found(key: int) -> IncidentNotFound:
    return IncidentNotFound(f"Expected to resolve incident with key '{key}', but no such incident was found.")
