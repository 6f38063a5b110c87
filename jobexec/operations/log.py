"""What is known of the life of one job."""

from __future__ import annotations

from uuid import UUID

from django.db.models import QuerySet

from jobexec.exceptions import JobNotFound
from jobexec.models import JobLog

from .lookup import as_id, find_job
from .selection import database_of


def job_log(id: UUID | str, *, using: str | None = None) -> QuerySet[JobLog]:
    """The log of a job in the order of its events, also when it is gone (Camunda: HistoricJobLogQuery by job).

    What there is depends on HISTORY_LEVEL. Raises :class:`~jobexec.exceptions.JobNotFound` for a text that is no UUID.
    """
    wanted = as_id(id)
    if wanted is None:
        raise JobNotFound(f"There is no job {id!r}: expected a UUID.")
    return JobLog.objects.using(database_of(None, using)).filter(job_id=wanted).order_by("timestamp", "pk")


def stack_trace(id: UUID | str, *, using: str | None = None) -> str:
    """The stack trace of a job's last failure; '' if it has not failed (Camunda: getJobExceptionStacktrace).

    Raises :class:`~jobexec.exceptions.JobNotFound` if it is in no table: those of earlier attempts, and of jobs that
    are gone, are in :func:`job_log`.
    """
    return find_job(id, database_of(None, using)).exception_stack
