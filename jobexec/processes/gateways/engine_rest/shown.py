"""The JSON of definitions, instances, tasks and incidents."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from jobexec import clock
from jobexec.gateways.rest.camunda7.times import shown as moment
from jobexec.identifiers import as_id
from jobexec.models import Incident

from ...models import InstanceState, ProcessDefinition, ProcessDeployment, ProcessInstance, ProcessResource, UserTask
from ...models.instance import RUNNING
from ...operations.deploy import Deployed
from ...store.definitions import KEEPS_HISTORY, NOT_STARTABLE, process
from ...store.history import time_to_live
from ...store.suspensions import suspended, suspended_definitions

#: Camunda's states of instances that have ended.
_HISTORIC = {
    InstanceState.ACTIVE: "ACTIVE",
    InstanceState.COMPENSATING: "ACTIVE",
    InstanceState.COMPLETED: "COMPLETED",
    InstanceState.TERMINATED: "COMPLETED",
    InstanceState.CANCELLED: "EXTERNALLY_TERMINATED",
}


def deployment(using: str, row: ProcessDeployment, made: Sequence[Deployed]) -> dict[str, Any]:
    new = {each.definition.pk: each for each in made if each.is_new}
    hidden, days = _not_startable(using, new), _days_kept(using, new)
    told = {id: _definition(each.definition, each.file, id not in hidden, days.get(id)) for id, each in new.items()}
    return {
        "links": [],
        "id": str(row.pk),
        "name": row.name or None,
        "source": row.source or None,
        "deploymentTime": moment(row.deploy_time),
        "tenantId": row.tenant_id or None,
        "deployedProcessDefinitions": told or None,
        "deployedCaseDefinitions": None,
        "deployedDecisionDefinitions": None,
        "deployedDecisionRequirementsDefinitions": None,
    }


def definitions(using: str, rows: Sequence[ProcessDefinition]) -> list[dict[str, Any]]:
    files = ProcessResource.objects.using(using).filter(pk__in={row.resource_id for row in rows if row.resource_id})
    names = dict(files.values_list("pk", "name"))
    held, ids = suspended_definitions(using, rows), [row.pk for row in rows]
    hidden, days = _not_startable(using, ids), _days_kept(using, ids)
    return [
        _definition(
            row,
            names.get(row.resource_id, "") if row.resource_id else "",
            row.pk not in hidden,
            days.get(row.pk),
            row.pk in held,
        )
        for row in rows
    ]


def _not_startable(using: str, ids: Iterable[str]) -> set[str]:
    rows = ProcessDefinition.objects.using(using).filter(NOT_STARTABLE, pk__in=list(ids))
    return set(rows.values_list("pk", flat=True))


def _days_kept(using: str, ids: Iterable[str]) -> dict[str, int]:
    """For how many days those of these definitions that say it keep their history."""
    rows = ProcessDefinition.objects.using(using).filter(KEEPS_HISTORY, pk__in=list(ids))
    texts = {id: process(using, id).history_ttl for id in rows.values_list("pk", flat=True)}
    return {id: time_to_live(text, clock.now(using)).days for id, text in texts.items() if text}


def _definition(
    row: ProcessDefinition, file: str, is_startable: bool, days_kept: int | None, is_suspended: bool = False
) -> dict[str, Any]:
    return {
        "id": row.pk,
        "key": row.key,
        "category": None,
        "description": None,
        "name": row.name or None,
        "version": row.version,
        "resource": file,
        "deploymentId": str(row.deployment_id),
        "diagram": None,
        "suspended": is_suspended,
        "tenantId": row.tenant_id or None,
        "versionTag": row.version_tag or None,
        "historyTimeToLive": days_kept,
        "startableInTasklist": is_startable,
    }


def instances(using: str, rows: Sequence[ProcessInstance]) -> list[dict[str, Any]]:
    held = suspended(using, [row for row in rows if row.state in RUNNING])
    return [_instance(row, row.pk in held) for row in rows]


def _instance(row: ProcessInstance, is_suspended: bool) -> dict[str, Any]:
    return {
        "links": [],
        "id": str(row.pk),
        "definitionId": row.definition_id,
        "definitionKey": row.definition_key,
        "businessKey": row.business_key or None,
        "caseInstanceId": None,
        "ended": row.state not in RUNNING,
        "suspended": is_suspended,
        "tenantId": row.tenant_id or None,
    }


def historic(using: str, rows: Sequence[ProcessInstance]) -> list[dict[str, Any]]:
    found = ProcessDefinition.objects.using(using).defer("model").in_bulk(list({row.definition_id for row in rows}))
    held = suspended(using, [row for row in rows if row.state in RUNNING])
    return [_historic(row, found.get(row.definition_id), row.pk in held) for row in rows]


def _historic(row: ProcessInstance, of: ProcessDefinition | None, is_suspended: bool) -> dict[str, Any]:
    took = None if row.end_time is None else int((row.end_time - row.start_time).total_seconds() * 1000)
    return {
        "id": str(row.pk),
        "businessKey": row.business_key or None,
        "processDefinitionId": row.definition_id,
        "processDefinitionKey": row.definition_key,
        "processDefinitionName": of.name or None if of else None,
        "processDefinitionVersion": of.version if of else None,
        "startTime": moment(row.start_time),
        "endTime": moment(row.end_time),
        "removalTime": moment(row.removal_time),
        "durationInMillis": took,
        "startUserId": row.start_user or None,
        "startActivityId": None,
        "deleteReason": row.delete_reason or None,
        "rootProcessInstanceId": str(row.root_id),
        "superProcessInstanceId": None,
        "superCaseInstanceId": None,
        "caseInstanceId": None,
        "tenantId": row.tenant_id or None,
        "state": "SUSPENDED" if is_suspended else _HISTORIC[InstanceState(row.state)],
    }


def tasks(using: str, rows: Sequence[UserTask]) -> list[dict[str, Any]]:
    held = suspended(using, rows)
    return [_task(row, row.instance_id in held) for row in rows]


def _task(row: UserTask, is_suspended: bool) -> dict[str, Any]:
    return {
        "id": str(row.pk),
        "name": row.name or None,
        "assignee": row.assignee or None,
        "created": moment(row.create_time),
        "due": moment(row.due_date),
        "followUp": moment(row.follow_up_date),
        "lastUpdated": None,
        "delegationState": None,
        "description": None,
        "executionId": str(row.owner_id),
        "owner": None,
        "parentTaskId": None,
        "priority": row.priority,
        "processDefinitionId": row.definition_id,
        "processInstanceId": str(row.instance_id),
        "caseExecutionId": None,
        "caseDefinitionId": None,
        "caseInstanceId": None,
        "taskDefinitionKey": row.element_id,
        "suspended": is_suspended,
        "formKey": row.form_key or None,
        "camundaFormRef": None,
        "tenantId": row.tenant_id or None,
    }


def incidents(using: str, rows: Iterable[Incident]) -> list[dict[str, Any]]:
    """Show incidents, each with the definition of its process instance, if that is one of a process."""
    listed = list(rows)
    ids = {id for row in listed if (id := as_id(row.process_instance_id)) is not None}
    instances = ProcessInstance.objects.using(using).filter(pk__in=ids)
    known = {str(id): definition for id, definition in instances.values_list("pk", "definition_id")}
    return [_incident(row, known.get(row.process_instance_id)) for row in listed]


def _incident(row: Incident, definition: str | None) -> dict[str, Any]:
    return {
        "id": str(row.pk),
        "processDefinitionId": definition,
        "processInstanceId": row.process_instance_id or None,
        "executionId": row.process_instance_id or None,
        "incidentTimestamp": moment(row.timestamp),
        "incidentType": row.type,
        "activityId": row.failed_activity_id or None,
        "failedActivityId": row.failed_activity_id or None,
        "causeIncidentId": str(row.pk),
        "rootCauseIncidentId": str(row.pk),
        "configuration": None if row.job_id is None else str(row.job_id),
        "incidentMessage": row.message or None,
        "tenantId": row.tenant_id or None,
        "jobDefinitionId": row.job_definition_id or None,
        "annotation": row.annotation or None,
    }
