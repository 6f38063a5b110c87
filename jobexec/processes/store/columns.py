"""The columns by which a job belongs to a process."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from jobexec.exceptions import InvalidRetryPlan
from jobexec.models import AbstractJob
from jobexec.retry import RetryPlan

from ..engine.exceptions import StepError
from ..models import ProcessInstance
from .definitions import code_of

#: Kinds of jobs beside those of the engine: of each instance in a multi-instance, and of one that waits for a message.
INNER, MESSAGE = "inner", "message"


def job_definition_id(key: str, element: str, kind: str) -> str:
    """The id of the job definition of an element; ``kind`` says which of its jobs."""
    return f"{key}#{element}#{kind}"[:255]


def element_of(job_definition: str) -> str:
    """The element in the id of a job definition."""
    return job_definition.rsplit("#", 2)[1] if job_definition.count("#") >= 2 else ""


def place_of(job: AbstractJob) -> str:
    """The process and the element to which a job belongs: ``order: ship``. '' if it belongs to no element."""
    element = job.failed_activity_id or element_of(job.job_definition_id)
    return f"{job.process_definition_key}: {element}" if element else ""


def key_of(definition: str) -> str:
    """The key in the id of a definition, ``key:version:…`` or ``key:flow:…``; a key may have colons."""
    return definition.rsplit(":", 2)[0]


def columns_of(
    using: str, origin: ProcessInstance, instance: UUID, owner: UUID, element: str, definition: str, kind: str
) -> dict[str, Any]:
    """``owner`` is the execution, or the instance, that the job belongs to."""
    key = key_of(definition)
    return {
        "execution_id": str(owner),
        "process_instance_id": str(instance),
        "root_process_instance_id": str(origin.root_id),
        "process_definition_id": definition,
        "process_definition_key": key,
        "job_definition_id": job_definition_id(key, element, kind),
        "failed_activity_id": element,
        "tenant_id": origin.tenant_id,
        "correlation_id": origin.business_key,
        **code_of(using, definition),
    }


def option_columns(element: str, retry_plan: Any, priority: Any, category: Any, retries: Any = None) -> dict[str, Any]:
    """Those of the job options of an element, evaluated, that are given. Raises StepError."""
    found: dict[str, Any] = {}
    try:
        if retry_plan not in (None, ""):
            plan = RetryPlan.parse(str(retry_plan))
            found |= {"retry_plan": str(plan), "retries": plan.attempts}
        if retries is not None:
            found["retries"] = int(retries)
        if priority is not None:
            found["priority"] = int(priority)
    except (InvalidRetryPlan, ValueError, TypeError) as error:
        raise StepError(element, f"The options of its job are wrong: {error}") from None
    if category:
        found["category"] = str(category)
    return found
