"""The schemas of requests and responses for the OpenAPI document."""

from __future__ import annotations

from typing import Any

from .searches import INCIDENT_MEMBERS, JOB_MEMBERS

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
KEY: Schema = {"type": "string", "pattern": "^-?[0-9]+$", "description": "A 64-bit number as a decimal string."}
INT: Schema = {"type": "integer", "format": "int32"}
MILLISECONDS: Schema = {"type": "integer", "format": "int64", "description": "Milliseconds."}
FLAG: Schema = {"type": "boolean"}
TIME: Schema = {"type": "string", "format": "date-time"}
OBJECT: Schema = {"type": "object", "additionalProperties": True}
TEXTS: Schema = {"type": "array", "items": TEXT}


def ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def null(schema: Schema) -> Schema:
    """Make a schema nullable."""
    if "type" not in schema:
        return {"anyOf": [schema, {"type": "null"}]}
    return {**schema, "type": [schema["type"], "null"]}


def said(schema: Schema, description: str) -> Schema:
    return {**schema, "description": description}


def request(required: str = "", /, **members: Any) -> Schema:
    """The schema of a request body; unknown members are ignored."""
    schema: Schema = {"type": "object", "properties": members, "additionalProperties": True}
    return schema | ({"required": required.split()} if required else {})


def result(**members: Schema) -> Schema:
    """The schema of a response; every member is always present."""
    return {"type": "object", "properties": members, "required": sorted(members)}


def _list(of: str, **more: Schema) -> Schema:
    return result(items={"type": "array", "items": ref(of)}, page=ref("SearchQueryPageResponse"), **more)


_ANY = said({}, "A plain value, or {$eq, $neq, $in, $notIn, $exists, $like, $gt, $gte, $lt, $lte}.")
_FIGURES = {"created": ref("StatusMetric"), "completed": ref("StatusMetric"), "failed": ref("StatusMetric")}
_PAGE = request(limit=INT, **{"from": INT}, after=TEXT, before=TEXT)
_LEASE = {"jobLeaseToken": said(null(TEXT), "The token from the activation, if the job was leased.")}


def _search(members: dict[str, Any]) -> Schema:
    return request(
        filter=request(**dict.fromkeys(members, _ANY)),
        sort={"type": "array", "items": request("field", field={**TEXT, "enum": list(members)}, order=TEXT)},
        page=_PAGE,
    )


def _statistics(required: str) -> Schema:
    return request("filter", filter=request(required, **{"from": TIME}, to=TIME, jobType=_ANY), page=_PAGE)


SCHEMAS: dict[str, Schema] = {
    "JobActivationRequest": request(
        "type timeout maxJobsToActivate",
        type=TEXT,
        worker=TEXT,
        timeout=said(MILLISECONDS, "Milliseconds for which the jobs are locked; at least 1."),
        maxJobsToActivate={**INT, "minimum": 1},
        fetchVariable=said(TEXTS, "The names of the requested variables; an empty list for all."),
        requestTimeout=said(MILLISECONDS, "Milliseconds to wait: 0 for the server's default, negative for no wait."),
        tenantIds=TEXTS,
        tenantFilter={**TEXT, "enum": ["PROVIDED", "ASSIGNED"]},
        withLease=FLAG,
    ),
    "JobActivationResult": result(jobs={"type": "array", "items": ref("ActivatedJobResult")}),
    "ActivatedJobResult": result(
        type=TEXT,
        processDefinitionId=TEXT,
        processDefinitionVersion=INT,
        elementId=TEXT,
        customHeaders=OBJECT,
        worker=TEXT,
        retries=INT,
        deadline=said(MILLISECONDS, "Milliseconds since 1970."),
        variables=OBJECT,
        tenantId=TEXT,
        physicalTenantId=TEXT,
        jobKey=KEY,
        processInstanceKey=KEY,
        processDefinitionKey=KEY,
        elementInstanceKey=KEY,
        kind=TEXT,
        listenerEventType=TEXT,
        userTask=null(OBJECT),
        tags=TEXTS,
        rootProcessInstanceKey=null(KEY),
        businessId=null(TEXT),
        priority=INT,
        jobLeaseToken=null(TEXT),
    ),
    "JobCompletionRequest": request(variables=null(OBJECT), result=said({}, "Ignored."), **_LEASE),
    "JobFailRequest": request(
        retries=said(INT, "Retries left; 0 opens an incident. Default: 0."),
        errorMessage=TEXT,
        retryBackOff=said(MILLISECONDS, "Milliseconds until the job may be fetched again."),
        variables=said(null(OBJECT), "Only for workers that fetch the job later."),
        **_LEASE,
    ),
    "JobErrorRequest": request("errorCode", errorCode=TEXT, errorMessage=null(TEXT), variables=null(OBJECT), **_LEASE),
    "JobUpdateRequest": request(
        "changeset",
        changeset=said(
            request(retries=null(INT), timeout=null(MILLISECONDS), priority=null(INT)), "At least one that is not null."
        ),
        operationReference=INT,
        **_LEASE,
    ),
    "JobSearchQuery": _search(JOB_MEMBERS),
    "JobSearchResult": result(
        customHeaders=OBJECT,
        deadline=null(TIME),
        deniedReason=null(TEXT),
        elementId=null(TEXT),
        elementInstanceKey=KEY,
        endTime=null(TIME),
        errorCode=null(TEXT),
        errorMessage=null(TEXT),
        hasFailedWithRetriesLeft=FLAG,
        isDenied=null(FLAG),
        jobKey=KEY,
        kind=TEXT,
        listenerEventType=TEXT,
        processDefinitionId=null(TEXT),
        processDefinitionKey=null(KEY),
        processInstanceKey=KEY,
        rootProcessInstanceKey=null(KEY),
        businessId=null(TEXT),
        retries=INT,
        state={**TEXT, "enum": ["CREATED", "FAILED", "ERROR_THROWN", "TIMED_OUT"]},
        tenantId=TEXT,
        type=TEXT,
        worker=TEXT,
        creationTime=null(TIME),
        lastUpdateTime=null(TIME),
        priority=INT,
    ),
    "JobSearchQueryResult": _list("JobSearchResult"),
    "SearchQueryPageResponse": result(
        totalItems=INT, hasMoreTotalItems=FLAG, startCursor=null(TEXT), endCursor=null(TEXT)
    ),
    "IncidentSearchQuery": _search(INCIDENT_MEMBERS),
    "IncidentResult": result(
        processDefinitionId=TEXT,
        errorType={**TEXT, "enum": ["JOB_NO_RETRIES", "UNHANDLED_ERROR_EVENT", "MESSAGE_SIZE_EXCEEDED"]},
        errorMessage=TEXT,
        elementId=TEXT,
        creationTime=TIME,
        state={**TEXT, "enum": ["ACTIVE", "RESOLVED"]},
        tenantId=TEXT,
        incidentKey=KEY,
        processDefinitionKey=KEY,
        processInstanceKey=KEY,
        rootProcessInstanceKey=null(KEY),
        elementInstanceKey=KEY,
        jobKey=null(KEY),
    ),
    "IncidentSearchQueryResult": _list("IncidentResult"),
    "IncidentResolutionRequest": request(operationReference=INT),
    "StatusMetric": result(count=INT, lastUpdatedAt=null(TIME)),
    "GlobalJobStatisticsQueryResult": result(**_FIGURES, isIncomplete=FLAG),
    "JobTypeStatisticsQuery": _statistics("from to"),
    "JobTypeStatisticsItem": result(jobType=TEXT, **_FIGURES, workers=INT),
    "JobTypeStatisticsQueryResult": _list("JobTypeStatisticsItem"),
    "JobWorkerStatisticsQuery": _statistics("from to jobType"),
    "JobWorkerStatisticsItem": result(worker=TEXT, **_FIGURES),
    "JobWorkerStatisticsQueryResult": _list("JobWorkerStatisticsItem"),
    "Partition": result(partitionId=INT, role=TEXT, health=TEXT, state=TEXT),
    "BrokerInfo": result(
        nodeId=INT,
        brokerId=TEXT,
        host=TEXT,
        port=INT,
        partitions={"type": "array", "items": ref("Partition")},
        version=TEXT,
    ),
    "TopologyResponse": result(
        brokers={"type": "array", "items": ref("BrokerInfo")},
        clusterId=null(TEXT),
        clusterSize=INT,
        partitionsCount=INT,
        replicationFactor=INT,
        gatewayVersion=TEXT,
        lastCompletedChangeId=TEXT,
    ),
    "ProblemDetail": result(type=TEXT, title=TEXT, status=INT, detail=TEXT, instance=TEXT),
}
