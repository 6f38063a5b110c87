"""Jobs and incidents in Camunda 8.10's API: the kind of each member, its value, and the columns that a search needs."""

from __future__ import annotations

from collections.abc import Sequence

from jobexec.gateways import added, zeebe_format
from jobexec.gateways.zeebe_format import process_keys
from jobexec.models import Incident, IncidentState
from jobexec.operations.external.search import Found
from jobexec.operations.external.types import ActivatedJob
from jobexec.operations.history.incidents import MESSAGE_SIZE_EXCEEDED, UNHANDLED_ERROR
from jobexec.sensitive import hide

from .contract import Property, Response, constant
from .values import FLAG, KEY, NUMBER, OBJECT, TEXT, TEXTS, TIME, described, enumerated, milliseconds, nullable

_BUSINESS_ID_LENGTH = 256


def _optional(number: int) -> str | None:
    return None if number == zeebe_format.NO_KEY else str(number)


#: Clients stop permanently if one of the 23 members is missing.
ACTIVATED_JOB = Response[[ActivatedJob]](
    "ActivatedJobResult",
    type=Property(TEXT, lambda job: job.type),
    processDefinitionId=Property(TEXT, lambda job: zeebe_format.process_definition_id(job.process_definition_key)),
    processDefinitionVersion=Property(NUMBER, lambda job: process_keys(job).version),
    elementId=Property(TEXT, lambda job: zeebe_format.element_id(job.element_id, job.type)),
    customHeaders=Property(OBJECT, lambda job: dict(job.headers)),
    worker=Property(TEXT, lambda job: job.worker),
    retries=Property(NUMBER, lambda job: job.retries),
    deadline=Property(
        described(milliseconds(), "Milliseconds since 1970."), lambda job: zeebe_format.milliseconds(job.deadline)
    ),
    variables=Property(OBJECT, lambda job: dict(job.variables)),
    tenantId=Property(TEXT, lambda job: zeebe_format.tenant(job.tenant_id)),
    physicalTenantId=constant(TEXT, "default"),
    jobKey=Property(KEY, lambda job: str(job.key)),
    processInstanceKey=Property(KEY, lambda job: str(process_keys(job).instance)),
    processDefinitionKey=Property(KEY, lambda job: str(process_keys(job).definition)),
    elementInstanceKey=Property(KEY, lambda job: str(process_keys(job).element_instance)),
    kind=constant(TEXT, "BPMN_ELEMENT"),
    listenerEventType=constant(TEXT, "UNSPECIFIED"),
    userTask=constant(nullable(OBJECT), None),
    tags=Property(TEXTS, lambda job: list(job.tags)),
    rootProcessInstanceKey=Property(nullable(KEY), lambda job: _optional(process_keys(job).root)),
    businessId=Property(nullable(TEXT), lambda job: job.business_key[:_BUSINESS_ID_LENGTH] or None),
    priority=Property(NUMBER, lambda job: job.priority),
    jobLeaseToken=Property(nullable(TEXT), lambda job: job.lease_token or None),
)

JOB = Response[
    [Found]
](
    "JobSearchResult",
    customHeaders=Property(OBJECT, lambda found: hide(found.row.custom_headers), is_searchable=False),
    deadline=Property(nullable(TIME), lambda found: zeebe_format.iso(found.deadline), needs=("lock_expiration_time",)),
    deniedReason=constant(nullable(TEXT), None),
    elementId=Property(
        nullable(TEXT),
        lambda found: zeebe_format.element_id(found.row.element_id or "", found.row.handler_type),
        needs=("element_id", "handler_type"),
    ),
    elementInstanceKey=Property(
        KEY,
        lambda found: str(found.row.job_key if found.row.instance_key else zeebe_format.key(found.row.execution_id)),
        needs=("execution_id", "instance_key", "job_key"),
    ),
    endTime=constant(nullable(TIME), None),
    errorCode=constant(nullable(TEXT), None),  # the message contains the code
    errorMessage=Property(nullable(TEXT), lambda found: found.row.exception_message or None, "exception_message"),
    hasFailedWithRetriesLeft=Property(
        FLAG, lambda found: found.failed_with_retries_left, needs=("failures", "retries")
    ),
    isDenied=constant(nullable(FLAG), None),
    jobKey=Property(KEY, lambda found: str(found.row.job_key), "job_key"),
    kind=constant(TEXT, "BPMN_ELEMENT"),
    listenerEventType=constant(TEXT, "UNSPECIFIED"),
    processDefinitionId=Property(
        nullable(TEXT),
        lambda found: zeebe_format.process_definition_id(found.row.process_definition_key),
        needs=("process_definition_key",),
    ),
    processDefinitionKey=Property(
        nullable(KEY),
        lambda found: found.row.definition_key or zeebe_format.key_text(found.row.process_definition_id),
        needs=("process_definition_id", "definition_key"),
    ),
    processInstanceKey=Property(
        KEY,
        lambda found: found.row.instance_key or zeebe_format.key_text(found.row.process_instance_id),
        needs=("process_instance_id", "instance_key"),
    ),
    rootProcessInstanceKey=Property(
        nullable(KEY),
        lambda found: found.row.root_key or _optional(zeebe_format.key(found.row.root_process_instance_id)),
        is_searchable=False,
    ),
    businessId=Property(
        nullable(TEXT), lambda found: (found.row.business_key or "")[:_BUSINESS_ID_LENGTH] or None, is_searchable=False
    ),
    retries=Property(NUMBER, lambda found: found.row.retries, "retries"),
    state=Property(
        enumerated(TEXT, "CREATED", "FAILED", "ERROR_THROWN", "TIMED_OUT"),
        lambda found: found.state,
        needs=("failures", "lock_expiration_time", "thrown"),
    ),
    tenantId=Property(TEXT, lambda found: zeebe_format.tenant(found.row.tenant_id), needs=("tenant_id",)),
    type=Property(TEXT, lambda found: found.row.handler_type, "handler_type"),
    worker=Property(TEXT, lambda found: found.row.lock_owner or "", needs=("lock_owner",)),
    creationTime=Property(
        nullable(TIME), lambda found: zeebe_format.iso(found.row.create_time), needs=("create_time",)
    ),
    lastUpdateTime=constant(nullable(TIME), None),
    priority=Property(NUMBER, lambda found: found.row.priority, "priority"),
)

_ERROR_TYPES = {UNHANDLED_ERROR: "UNHANDLED_ERROR_EVENT", MESSAGE_SIZE_EXCEEDED: "MESSAGE_SIZE_EXCEEDED"}
_OTHER_ERROR = "JOB_NO_RETRIES"

#: The attribute of an incident that has the key of its process instance, if its id is none.
INSTANCE_KEY = "instance_key"


def with_instance_keys(using: str, incidents: Sequence[Incident]) -> Sequence[Incident]:
    """Set the keys of these incidents' process instances."""
    ids = {row.process_instance_id for row in incidents if zeebe_format.key(row.process_instance_id) < 0}
    keys = added.instance_keys(using, ids)
    for row in incidents:
        if row.process_instance_id in keys:
            setattr(row, INSTANCE_KEY, keys[row.process_instance_id])
    return incidents


#: Made of an incident and the key of its job, if it has one.
INCIDENT = Response[[Incident, int | None]](
    "IncidentResult",
    processDefinitionId=Property(
        TEXT,
        lambda row, key: zeebe_format.process_definition_id(row.process_definition_key),
        needs=("process_definition_key",),
    ),
    errorType=Property(
        enumerated(TEXT, _OTHER_ERROR, *_ERROR_TYPES.values()),
        lambda row, key: _ERROR_TYPES.get(row.type, _OTHER_ERROR),
        needs=("type",),
    ),
    errorMessage=Property(TEXT, lambda row, key: row.message, "message"),
    elementId=Property(
        TEXT,
        lambda row, key: zeebe_format.element_id(row.failed_activity_id, row.handler_type),
        needs=("failed_activity_id", "handler_type"),
    ),
    creationTime=Property(TIME, lambda row, key: zeebe_format.iso(row.timestamp), needs=("timestamp",)),
    state=Property(
        enumerated(TEXT, "ACTIVE", "RESOLVED"),
        lambda row, key: "ACTIVE" if row.state == IncidentState.OPEN else "RESOLVED",
        needs=("state",),
    ),
    tenantId=Property(TEXT, lambda row, key: zeebe_format.tenant(row.tenant_id), needs=("tenant_id",)),
    incidentKey=Property(KEY, lambda row, key: str(row.incident_key), "incident_key"),
    processDefinitionKey=constant(KEY, str(zeebe_format.NO_KEY)),
    processInstanceKey=Property(
        KEY,
        lambda row, key: str(getattr(row, INSTANCE_KEY, zeebe_format.key(row.process_instance_id))),
        needs=("process_instance_id",),
    ),
    rootProcessInstanceKey=Property(nullable(KEY), lambda row, key: None, is_searchable=False),
    elementInstanceKey=constant(KEY, str(zeebe_format.NO_KEY)),
    jobKey=Property(nullable(KEY), lambda row, key: None if key is None else str(key), needs=("job_id",)),
)
