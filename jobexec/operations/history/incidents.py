"""Incidents: a job has no retries left, and somebody has to see to it (Camunda: ACT_RU_INCIDENT, ACT_HI_INCIDENT).

An incident is opened by whatever makes a dead letter and is over when the job is no dead letter any more, each in the
same transaction. So there are as many open incidents as dead letters, and one for each; it stays when it is over.
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

#: What an incident is about (``Incident.type``): no retries are left; a worker outside has thrown an error that nothing
#: catches; the variables of a job for workers outside have grown too large to be sent. (Camunda: failedJob; Zeebe:
#: JOB_NO_RETRIES, UNHANDLED_ERROR_EVENT, MESSAGE_SIZE_EXCEEDED.)
FAILED_JOB, UNHANDLED_ERROR, MESSAGE_SIZE_EXCEEDED = "failedJob", "unhandledError", "messageSizeExceeded"

#: The columns of an incident that are those of its job, by another name or the same.
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
    """Open an incident for each of these rows, which have just become dead letters.

    Of jobs that workers outside know by a key the incident has one, too.
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
    """The same inside the database, in one statement, for rows that it need not bring: jobs of executors.

    Jobs that have a key do not become dead letters in this way.
    """
    columns: dict[str, Any] = {name: Sql(f"source.{source}") for name, source in _COPIED.items()}
    columns |= {"type": FAILED_JOB, "state": IncidentState.OPEN, "annotation": "", "end_time": None}
    each = {pk: {"id": id} for pk, id in zip(ids, uuid7s(len(ids)), strict=True)}
    insert_from(using, DeadLetterJob, Incident, ids, columns, each)


def resolve_incidents(using: str, ids: Collection[UUID]) -> None:
    """The incidents of these jobs, which are dead letters no more, are over."""
    _close(using, ids, IncidentState.RESOLVED)


def delete_incidents(using: str, ids: Collection[UUID]) -> None:
    """The incidents of these jobs, which were deleted as dead letters, are over."""
    _close(using, ids, IncidentState.DELETED)


def _close(using: str, ids: Collection[UUID], state: IncidentState) -> None:
    incidents = Incident.objects.using(using).filter(job_id__in=ids, state=IncidentState.OPEN)
    incidents.update(state=state, end_time=clock.now(using))


@audited
def annotate_incident(id: UUID | str, text: str, *, using: str | None = None) -> None:
    """Write a note to an incident, open or over, in place of the one it has; '' takes it away.

    Camunda's setAnnotationForIncidentById and clearAnnotationForIncidentById. Raises ``Incident.DoesNotExist`` for an
    unknown id, and :class:`~jobexec.exceptions.InvalidJob` for a text of more than 4000 characters.
    """
    if not isinstance(text, str) or len(text) > ANNOTATION_LENGTH:
        got = f"{len(text)} characters" if isinstance(text, str) else repr(text)
        raise InvalidJob(f"annotation: expected a text of at most {ANNOTATION_LENGTH} characters, got {got}.")
    database = database_of(None, using)
    with atomic(database):
        found = Incident.objects.using(database).filter(pk=_id(id))
        old = found.values("pk", "annotation", "tenant_id").first() if is_on() else None
        changed = found.update(annotation=storable(text)[:ANNOTATION_LENGTH])
        if old is not None:
            before = {"annotation": old["annotation"]}
            note(database, "incident", old["pk"], old=before, new={"annotation": text}, tenant=old["tenant_id"])
    if not changed:  # outside, or a transaction of the caller's could not go on
        raise Incident.DoesNotExist(f"There is no incident {str(id)!r}.")


def _id(id: UUID | str) -> UUID:
    try:
        return id if isinstance(id, UUID) else UUID(id)
    except ValueError:
        raise Incident.DoesNotExist(f"There is no incident {id!r}: expected a UUID.") from None
