"""The structured fields of every log record about a job, for projects that write logs as JSON."""

from __future__ import annotations

from typing import Any

from jobexec.models import AbstractJob

from .acquired_job import AcquiredJob


def log_fields(job: AcquiredJob | AbstractJob, **more: Any) -> dict[str, Any]:
    """Return the ``extra`` of a record: the job, its attempt and where it runs; see ``docs/reference/logging.md``.

    Every record has the same names; unknown values are ''.
    """
    using = job._state.db if isinstance(job, AbstractJob) else job.using
    return {
        "job_id": str(job.id),
        "handler_type": job.handler_type,
        "category": job.category,
        "attempt": job.attempts + 1,
        "node": (job.lock_owner or "").rpartition(":")[0],
        "engine": using or "",
        "process_instance_id": job.process_instance_id,
        "tenant_id": job.tenant_id,
        **more,
    }
