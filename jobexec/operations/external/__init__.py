"""Operations on external jobs, which workers outside Django execute; called by the gateways.

Each runs in its own transaction, or joins the caller's; keys are values of ``job_key``. The client is passed as a
:class:`~jobexec.operations.external.types.Caller`; the default is a caller within this process, with all permissions.
"""

from .fetch import activate_jobs, yield_jobs
from .find import find_external_job
from .incidents import resolve_external_incident
from .settle import complete_external_job, complete_external_jobs, fail_external_job
from .throw_error import throw_external_error
from .types import EVERYTHING, ActivatedJob, Caller, Completion, Fetch
from .update import (
    extend_external_deadline,
    lock_external_job,
    set_external_priority,
    set_external_retries,
    unlock_external_job,
)

__all__ = [
    "EVERYTHING",
    "ActivatedJob",
    "Caller",
    "Completion",
    "Fetch",
    "activate_jobs",
    "complete_external_job",
    "complete_external_jobs",
    "extend_external_deadline",
    "fail_external_job",
    "find_external_job",
    "lock_external_job",
    "resolve_external_incident",
    "set_external_priority",
    "set_external_retries",
    "throw_external_error",
    "unlock_external_job",
    "yield_jobs",
]
