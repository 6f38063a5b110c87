"""Serialise jobs and incidents for Camunda 8.10's API: keys are decimal strings, and every member is present."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from jobexec.gateways import zeebe_format
from jobexec.models import Incident, IncidentState
from jobexec.operations.external.search import Found
from jobexec.operations.external.types import ActivatedJob
from jobexec.operations.history.incidents import MESSAGE_SIZE_EXCEEDED, UNHANDLED_ERROR
from jobexec.sensitive import hide

_BUSINESS_ID_LENGTH = 256


def activated_job(job: ActivatedJob) -> dict[str, Any]:
    """ActivatedJobResult with all of its 23 members: clients stop permanently if one is missing."""
    return {
        "type": job.type,
        "processDefinitionId": zeebe_format.process_definition_id(job.process_definition_key),
        "processDefinitionVersion": zeebe_format.PROCESS_DEFINITION_VERSION,
        "elementId": zeebe_format.element_id(job.element_id, job.type),
        "customHeaders": dict(job.headers),
        "worker": job.worker,
        "retries": job.retries,
        "deadline": zeebe_format.milliseconds(job.deadline),
        "variables": dict(job.variables),
        "tenantId": zeebe_format.tenant(job.tenant_id),
        "physicalTenantId": "default",
        "jobKey": str(job.key),
        "processInstanceKey": zeebe_format.key_text(job.process_instance_id),
        "processDefinitionKey": zeebe_format.key_text(job.process_definition_id),
        "elementInstanceKey": zeebe_format.key_text(job.execution_id),
        "kind": "BPMN_ELEMENT",
        "listenerEventType": "UNSPECIFIED",
        "userTask": None,
        "tags": list(job.tags),
        "rootProcessInstanceKey": _optional_key(job.root_process_instance_id),
        "businessId": job.business_key[:_BUSINESS_ID_LENGTH] or None,
        "priority": job.priority,
        "jobLeaseToken": job.lease_token or None,
    }


_FOUND: Mapping[str, Callable[[Found], Any]] = {
    "customHeaders": lambda found: hide(found.row.custom_headers),
    "deadline": lambda found: zeebe_format.iso(found.deadline),
    "deniedReason": lambda found: None,
    "elementId": lambda found: zeebe_format.element_id(found.row.element_id or "", found.row.handler_type),
    "elementInstanceKey": lambda found: zeebe_format.key_text(found.row.execution_id),
    "endTime": lambda found: None,
    "errorCode": lambda found: None,  # the message contains the code
    "errorMessage": lambda found: found.row.exception_message or None,
    "hasFailedWithRetriesLeft": lambda found: found.failed_with_retries_left,
    "isDenied": lambda found: None,
    "jobKey": lambda found: str(found.row.job_key),
    "kind": lambda found: "BPMN_ELEMENT",
    "listenerEventType": lambda found: "UNSPECIFIED",
    "processDefinitionId": lambda found: zeebe_format.process_definition_id(found.row.process_definition_key),
    "processDefinitionKey": lambda found: zeebe_format.key_text(found.row.process_definition_id),
    "processInstanceKey": lambda found: zeebe_format.key_text(found.row.process_instance_id),
    "rootProcessInstanceKey": lambda found: _optional_key(found.row.root_process_instance_id),
    "businessId": lambda found: (found.row.business_key or "")[:_BUSINESS_ID_LENGTH] or None,
    "retries": lambda found: found.row.retries,
    "state": lambda found: found.state,
    "tenantId": lambda found: zeebe_format.tenant(found.row.tenant_id),
    "type": lambda found: found.row.handler_type,
    "worker": lambda found: found.row.lock_owner or "",
    "creationTime": lambda found: zeebe_format.iso(found.row.create_time),
    "lastUpdateTime": lambda found: None,
    "priority": lambda found: found.row.priority,
}


def found_job(found: Found, names: Collection[str] = _FOUND) -> dict[str, Any]:
    """JobSearchResult, or only some of its members; reads only their columns."""
    return {name: _FOUND[name](found) for name in names}


_ERROR_TYPES = {UNHANDLED_ERROR: "UNHANDLED_ERROR_EVENT", MESSAGE_SIZE_EXCEEDED: "MESSAGE_SIZE_EXCEEDED"}

#: The members of IncidentResult.
INCIDENT: Mapping[str, Callable[[Incident, int | None], Any]] = {
    "processDefinitionId": lambda row, key: zeebe_format.process_definition_id(row.process_definition_key),
    "errorType": lambda row, key: _ERROR_TYPES.get(row.type, "JOB_NO_RETRIES"),
    "errorMessage": lambda row, key: row.message,
    "elementId": lambda row, key: zeebe_format.element_id("", row.handler_type),
    "creationTime": lambda row, key: zeebe_format.iso(row.timestamp),
    "state": lambda row, key: "ACTIVE" if row.state == IncidentState.OPEN else "RESOLVED",
    "tenantId": lambda row, key: zeebe_format.tenant(row.tenant_id),
    "incidentKey": lambda row, key: str(row.incident_key),
    "processDefinitionKey": lambda row, key: str(zeebe_format.NO_KEY),
    "processInstanceKey": lambda row, key: zeebe_format.key_text(row.process_instance_id),
    "rootProcessInstanceKey": lambda row, key: None,
    "elementInstanceKey": lambda row, key: str(zeebe_format.NO_KEY),
    "jobKey": lambda row, key: None if key is None else str(key),
}


def incident(row: Incident, job_key: int | None, names: Collection[str] = INCIDENT) -> dict[str, Any]:
    """IncidentResult, or only some of its members; reads only their columns."""
    return {name: INCIDENT[name](row, job_key) for name in names}


def _optional_key(id: str) -> str | None:
    number = zeebe_format.key(id)
    return None if number == zeebe_format.NO_KEY else str(number)
