"""Incidents: a job has no retries left and needs an operator (Camunda: ACT_RU_INCIDENT, ACT_HI_INCIDENT).

An incident is opened when a job becomes a dead letter and closed when it is no longer one, in the same transaction. So
each dead letter has exactly one open incident. In the same way each circuit breaker that is not closed has one, without
a job. There are no others; closed incidents are kept.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any
from uuid import UUID

from jobexec import clock
from jobexec.exceptions import InvalidJob
from jobexec.identifiers import uuid7s
from jobexec.models import AbstractJob, DeadLetterJob, Incident, IncidentState

from ..audit import audited, is_on, note
from ..sql.errors import storable
from ..sql.insert_select import Sql, insert_from
from ..sql.locks import atomic
from ..targets.for_each import database_of
from .keys import next_keys

ANNOTATION_LENGTH = 4000

#: The types of incidents (``Incident.type``): no retries are left; an external worker has thrown an error that nothing
#: catches; the variables of an external job have grown too large to be sent. (Camunda: failedJob; Zeebe:
#: JOB_NO_RETRIES, UNHANDLED_ERROR_EVENT, MESSAGE_SIZE_EXCEEDED.)
FAILED_JOB, UNHANDLED_ERROR, MESSAGE_SIZE_EXCEEDED = "failedJob", "unhandledError", "messageSizeExceeded"
#: The circuit breaker of a resource has opened; jobexec's own type.
BREAKER_OPEN = "breakerOpen"

#: The columns of an incident that are copied from its job, and their names there.
_COPIED = {
    "job_id": "id",
    "timestamp": "died_at",
    "message": "exception_message",
    **{
        name: name
        for name in (
            "job_definition_id",
            "handler_type",
            "category",
            "process_instance_id",
            "process_definition_key",
            "deployment_id",
            "tenant_id",
            "failed_activity_id",
            "fingerprint",
        )
    },
}


def open_incidents(using: str, dead: Sequence[AbstractJob], type: str = FAILED_JOB) -> None:
    """Open an incident for each of these new dead letters.

    Incidents of jobs with a key, which external workers use, get a key too.
    """
    keys = iter(next_keys(using, sum(row.job_key is not None for row in dead)))
    made = [
        Incident(id=id, type=type, incident_key=None if row.job_key is None else next(keys), **_columns(row))
        for id, row in zip(uuid7s(len(dead)), dead, strict=True)
    ]
    Incident.objects.using(using).bulk_create(made)


def _columns(row: AbstractJob) -> dict[str, Any]:
    return {name: getattr(row, source) for name, source in _COPIED.items()}


def copy_incidents(using: str, ids: Collection[UUID]) -> None:
    """Open incidents inside the database, in one statement, for executor jobs whose rows need not be loaded.

    Jobs with a key do not become dead letters in this way.
    """
    columns: dict[str, Any] = {name: Sql(f"source.{source}") for name, source in _COPIED.items()}
    columns |= {"type": FAILED_JOB, "state": IncidentState.OPEN, "annotation": "", "end_time": None}
    each = {pk: {"id": id} for pk, id in zip(ids, uuid7s(len(ids)), strict=True)}
    insert_from(using, DeadLetterJob, Incident, ids, columns, each)


def open_breaker_incident(using: str, name: str, reason: str) -> None:
    """Open the incident of a breaker that opens, unless it has one: then a trial call has failed.

    The caller has locked the row of the resource.
    """
    if not _of_breaker(using, name).update(message=reason):
        Incident.objects.using(using).create(
            type=BREAKER_OPEN, resource=name, timestamp=clock.now(using), message=reason
        )


def close_breaker_incident(using: str, name: str) -> None:
    """Close the incident of a breaker that closes; the caller has locked the row of the resource."""
    _of_breaker(using, name).update(state=IncidentState.RESOLVED, end_time=clock.now(using))


def _of_breaker(using: str, name: str) -> Any:
    return Incident.objects.using(using).filter(resource=name, state=IncidentState.OPEN)


def resolve_incidents(using: str, ids: Collection[UUID]) -> None:
    """Close the incidents of jobs that are no longer dead letters."""
    _close(using, ids, IncidentState.RESOLVED)


def delete_incidents(using: str, ids: Collection[UUID]) -> None:
    """Close the incidents of dead letters that were deleted."""
    _close(using, ids, IncidentState.DELETED)


def _close(using: str, ids: Collection[UUID], state: IncidentState) -> None:
    incidents = Incident.objects.using(using).filter(job_id__in=ids, state=IncidentState.OPEN)
    incidents.update(state=state, end_time=clock.now(using))


@audited
def annotate_incident(id: UUID | str, text: str, *, using: str | None = None) -> None:
    """Replace the note of an open or closed incident; '' removes it.

    Camunda's setAnnotationForIncidentById and clearAnnotationForIncidentById. Raises ``Incident.DoesNotExist`` for an
    unknown id, and :class:`~jobexec.exceptions.InvalidJob` for a text of more than 4000 characters.
    """
    if not isinstance(text, str) or len(text) > ANNOTATION_LENGTH:
        got = f"{len(text)} characters" if isinstance(text, str) else repr(text)
        raise InvalidJob(f"annotation: expected a string of at most {ANNOTATION_LENGTH} characters, got {got}.")
    database, pk = database_of(None, using), _id(id)
    with atomic(database):
        found = Incident.objects.using(database).filter(pk=pk)
        old = found.values("pk", "annotation", "tenant_id").first() if is_on() else None
        changed = found.update(annotation=storable(text)[:ANNOTATION_LENGTH])
        if old is not None:
            before = {"annotation": old["annotation"]}
            note(database, "incident", old["pk"], old=before, new={"annotation": text}, tenant=old["tenant_id"])
    if not changed:  # outside the block, or the caller's transaction could not continue
        raise Incident.DoesNotExist(f"There is no incident {str(id)!r}.")


def _id(id: UUID | str) -> UUID:
    try:
        return id if isinstance(id, UUID) else UUID(id)
    except ValueError:
        raise Incident.DoesNotExist(f"There is no incident {id!r}: expected a UUID.") from None
