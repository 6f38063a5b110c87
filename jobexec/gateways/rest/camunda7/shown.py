"""Serialise tasks for clients."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from jobexec.models import AbstractJob, SuspendedJob
from jobexec.operations.external.search import has_failed
from jobexec.operations.external.types import ActivatedJob

from .times import shown
from .topics import Topic
from .variables import to_typed


def locked_task(job: ActivatedJob, topic: Topic) -> dict[str, Any]:
    """A task that has just been locked (Camunda: LockedExternalTaskDto)."""
    id = str(job.key)
    return {
        "id": id,
        "topicName": job.type,
        "workerId": job.worker,
        "lockExpirationTime": shown(job.deadline),
        "createTime": shown(job.create_time),
        # At the first failure clients start with a retry count of their own; after that they continue from this one.
        "retries": job.retries if job.failures else None,
        "errorMessage": job.error_message or None,
        "errorDetails": job.error_details or None,
        "suspended": False,
        "priority": job.priority,
        "businessKey": job.business_key or None,
        "tenantId": job.tenant_id or None,
        **_whereabouts(id, job, job.element_id),
        "variables": to_typed(job.variables, deserialize=topic.deserialize),
        "extensionProperties": _properties(job.headers) if topic.extension_properties else {},
    }


def task(row: Any) -> dict[str, Any]:
    """A task in the answer to a query (Camunda: ExternalTaskDto)."""
    id = str(row.job_key)
    return {
        "id": id,
        "topicName": row.handler_type,
        "workerId": row.lock_owner,
        "lockExpirationTime": shown(row.lock_expiration_time),
        "createTime": shown(row.create_time),
        "retries": retries(row),
        "errorMessage": row.exception_message or None,
        "suspended": isinstance(row, SuspendedJob),
        "priority": row.priority,
        "businessKey": row.business_key or None,
        "tenantId": row.tenant_id or None,
        **_whereabouts(id, row, row.element_id or ""),
    }


def retries(row: Any) -> int | None:
    """The retries left. None before the first failure, unless there were none to begin with."""
    return row.retries if row.retries < 1 or has_failed(row) else None


def _whereabouts(id: str, job: AbstractJob | ActivatedJob, element_id: str) -> dict[str, Any]:
    # Clients build URLs from these ids, so a task without a process counts as its own process instance.
    instance = job.process_instance_id or id
    execution = job.execution_id or instance
    activity = element_id or (job.type if isinstance(job, ActivatedJob) else job.handler_type)
    return {
        "activityId": activity,
        "activityInstanceId": f"{activity}:{execution}",
        "executionId": execution,
        "processInstanceId": instance,
        "processDefinitionId": job.process_definition_id or None,
        "processDefinitionKey": job.process_definition_key or None,
        "processDefinitionVersionTag": None,
    }


def _properties(headers: Mapping[str, Any]) -> dict[str, str]:
    """Convert headers to extension properties, whose values are texts."""
    return {
        name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for name, value in headers.items()
    }
