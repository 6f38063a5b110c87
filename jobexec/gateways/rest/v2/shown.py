"""Jobs and incidents as the contract of Camunda 8.10 writes them: keys are decimal texts, and no member is left out."""

from __future__ import annotations

from typing import Any

from jobexec.gateways import wire
from jobexec.models import Incident, IncidentState
from jobexec.operations.external_search import Found
from jobexec.operations.external_types import ActivatedJob
from jobexec.operations.incidents import MESSAGE_SIZE_EXCEEDED, UNHANDLED_ERROR

_BUSINESS_ID_LENGTH = 256


def activated_job(job: ActivatedJob) -> dict[str, Any]:
    """ActivatedJobResult: all of its 23 members, since clients stop for good where one is missing."""
    return {
        "type": job.type,
        "processDefinitionId": wire.process_definition_id(job.process_definition_key),
        "processDefinitionVersion": wire.PROCESS_DEFINITION_VERSION,
        "elementId": wire.element_id(job.element_id, job.type),
        "customHeaders": dict(job.headers),
        "worker": job.worker,
        "retries": job.retries,
        "deadline": wire.milliseconds(job.deadline),
        "variables": dict(job.variables),
        "tenantId": wire.tenant(job.tenant_id),
        "physicalTenantId": "default",
        "jobKey": str(job.key),
        "processInstanceKey": wire.key_text(job.process_instance_id),
        "processDefinitionKey": wire.key_text(job.process_definition_id),
        "elementInstanceKey": wire.key_text(job.execution_id),
        "kind": "BPMN_ELEMENT",
        "listenerEventType": "UNSPECIFIED",
        "userTask": None,
        "tags": list(job.tags),
        "rootProcessInstanceKey": _optional_key(job.root_process_instance_id),
        "businessId": job.business_key[:_BUSINESS_ID_LENGTH] or None,
        "priority": job.priority,
        "jobLeaseToken": job.lease_token or None,
    }


def found_job(found: Found) -> dict[str, Any]:
    """JobSearchResult."""
    row = found.row
    configuration = row.handler_configuration if isinstance(row.handler_configuration, dict) else {}
    return {
        "customHeaders": row.custom_headers,
        "deadline": wire.iso(found.deadline),
        "deniedReason": None,
        "elementId": wire.element_id(configuration.get("element_id", ""), row.handler_type),
        "elementInstanceKey": wire.key_text(row.execution_id),
        "endTime": None,
        "errorCode": None,  # its text is in the message
        "errorMessage": row.exception_message or None,
        "hasFailedWithRetriesLeft": found.failed_with_retries_left,
        "isDenied": None,
        "jobKey": str(row.job_key),
        "kind": "BPMN_ELEMENT",
        "listenerEventType": "UNSPECIFIED",
        "processDefinitionId": wire.process_definition_id(row.process_definition_key),
        "processDefinitionKey": wire.key_text(row.process_definition_id),
        "processInstanceKey": wire.key_text(row.process_instance_id),
        "rootProcessInstanceKey": _optional_key(row.root_process_instance_id),
        "businessId": str(configuration.get("business_key", ""))[:_BUSINESS_ID_LENGTH] or None,
        "retries": row.retries,
        "state": found.state,
        "tenantId": wire.tenant(row.tenant_id),
        "type": row.handler_type,
        "worker": row.lock_owner or "",
        "creationTime": wire.iso(row.create_time),
        "lastUpdateTime": None,
        "priority": row.priority,
    }


_ERROR_TYPES = {UNHANDLED_ERROR: "UNHANDLED_ERROR_EVENT", MESSAGE_SIZE_EXCEEDED: "MESSAGE_SIZE_EXCEEDED"}


def incident(row: Incident, job_key: int | None) -> dict[str, Any]:
    """IncidentResult."""
    return {
        "processDefinitionId": wire.process_definition_id(row.process_definition_key),
        "errorType": _ERROR_TYPES.get(row.type, "JOB_NO_RETRIES"),
        "errorMessage": row.message,
        "elementId": wire.element_id("", row.handler_type),
        "creationTime": wire.iso(row.timestamp),
        "state": "ACTIVE" if row.state == IncidentState.OPEN else "RESOLVED",
        "tenantId": wire.tenant(row.tenant_id),
        "incidentKey": str(row.incident_key),
        "processDefinitionKey": str(wire.NO_KEY),
        "processInstanceKey": wire.key_text(row.process_instance_id),
        "rootProcessInstanceKey": None,
        "elementInstanceKey": str(wire.NO_KEY),
        "jobKey": None if job_key is None else str(job_key),
    }


def _optional_key(id: str) -> str | None:
    number = wire.key(id)
    return None if number == wire.NO_KEY else str(number)
