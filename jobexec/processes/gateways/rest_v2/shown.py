"""The JSON of processes in Camunda 8.10's API. A member's column may be one of ``searches.RESOLVED``."""

from __future__ import annotations

import json
from typing import Any

from django.core.serializers.json import DjangoJSONEncoder

from jobexec.gateways import zeebe_format
from jobexec.gateways.rest.camunda8.contract import Property, Response, constant
from jobexec.gateways.rest.camunda8.values import (
    FLAG,
    KEY,
    NUMBER,
    OBJECT,
    TEXT,
    TEXTS,
    TIME,
    enumerated,
    nullable,
)
from jobexec.sensitive import hide

from ...models import InstanceState, ProcessInstance
from ...operations.deploy import Deployed
from ...store import columns
from .views import DefinitionView, InstanceView, TaskView, VariableView, key_of

#: The states of Camunda, and ours.
STATES = {
    "ACTIVE": (InstanceState.ACTIVE, InstanceState.COMPENSATING),
    "COMPLETED": (InstanceState.COMPLETED, InstanceState.TERMINATED),
    "TERMINATED": (InstanceState.CANCELLED,),
}
#: The state of an instance that runs and is suspended.
SUSPENDED = "SUSPENDED"
_STATE_OF = {ours: theirs for theirs, several in STATES.items() for ours in several}
_VALUE_LENGTH = 8191


def key_text(key: int | None) -> str:
    return str(zeebe_format.NO_KEY if key is None else key)


def optional_key(key: int | None) -> str | None:
    return None if key is None else str(key)


PROCESS_DEFINITION = Response[[DefinitionView]](
    "ProcessDefinitionResult",
    name=Property(nullable(TEXT), lambda view: view.row.name or None, "name"),
    resourceName=Property(TEXT, lambda view: view.file),
    version=Property(NUMBER, lambda view: view.row.version, "version"),
    versionTag=Property(nullable(TEXT), lambda view: view.row.version_tag or None, "version_tag"),
    processDefinitionId=Property(TEXT, lambda view: view.row.key, "key"),
    tenantId=Property(TEXT, lambda view: zeebe_format.tenant(view.row.tenant_id), "shown_tenant"),
    processDefinitionKey=Property(KEY, lambda view: key_text(view.row.number), "number"),
    hasStartForm=constant(FLAG, False),
    state=constant(TEXT, "ACTIVE"),
)

PROCESS_INSTANCE = Response[[InstanceView]](
    "ProcessInstanceResult",
    processDefinitionId=Property(TEXT, lambda view: view.row.definition_key, "definition_key"),
    processDefinitionName=Property(nullable(TEXT), lambda view: view.definition.name or None),
    processDefinitionVersion=Property(NUMBER, lambda view: view.definition.version or -1),
    processDefinitionVersionTag=Property(nullable(TEXT), lambda view: view.definition.version_tag or None),
    startDate=Property(TIME, lambda view: zeebe_format.iso(view.row.start_time), "start_time"),
    endDate=Property(nullable(TIME), lambda view: zeebe_format.iso(view.row.end_time), "end_time"),
    state=Property(
        enumerated(TEXT, *STATES, SUSPENDED),
        lambda view: _STATE_OF[InstanceState(view.row.state)] if view.suspended_at is None else SUSPENDED,
        "shown_state",
    ),
    suspendedDate=Property(nullable(TIME), lambda view: zeebe_format.iso(view.suspended_at)),
    hasIncident=Property(FLAG, lambda view: view.has_incident),
    tenantId=Property(TEXT, lambda view: zeebe_format.tenant(view.row.tenant_id), "shown_tenant"),
    processInstanceKey=Property(KEY, lambda view: key_text(view.row.key), "key"),
    processDefinitionKey=Property(KEY, lambda view: key_text(view.definition.number), "definition_number"),
    parentProcessInstanceKey=Property(nullable(KEY), lambda view: optional_key(view.parent)),
    parentElementInstanceKey=constant(nullable(KEY), None),
    rootProcessInstanceKey=Property(nullable(KEY), lambda view: optional_key(view.root), "root_key"),
    tags=constant(TEXTS, []),
    businessId=Property(nullable(TEXT), lambda view: view.row.business_key or None, "business_key"),
)

USER_TASK = Response[[TaskView]](
    "UserTaskResult",
    name=Property(nullable(TEXT), lambda view: view.row.name or None, "name"),
    state=constant(enumerated(TEXT, "CREATED"), "CREATED"),
    assignee=Property(nullable(TEXT), lambda view: view.row.assignee or None, "assignee"),
    elementId=Property(TEXT, lambda view: view.row.element_id, "element_id"),
    candidateGroups=Property(TEXTS, lambda view: view.groups, is_searchable=False),
    candidateUsers=Property(TEXTS, lambda view: view.users, is_searchable=False),
    processDefinitionId=Property(TEXT, lambda view: columns.key_of(view.row.definition_id)),
    creationDate=Property(TIME, lambda view: zeebe_format.iso(view.row.create_time), "create_time"),
    completionDate=constant(nullable(TIME), None),
    followUpDate=Property(nullable(TIME), lambda view: zeebe_format.iso(view.row.follow_up_date), "follow_up_date"),
    dueDate=Property(nullable(TIME), lambda view: zeebe_format.iso(view.row.due_date), "due_date"),
    tenantId=Property(TEXT, lambda view: zeebe_format.tenant(view.row.tenant_id), "shown_tenant"),
    externalFormReference=Property(nullable(TEXT), lambda view: view.row.form_key or None),
    processDefinitionVersion=Property(NUMBER, lambda view: view.definition.version or -1),
    customHeaders=constant(OBJECT, {}),
    userTaskKey=Property(KEY, lambda view: key_text(view.row.key), "key"),
    elementInstanceKey=Property(KEY, lambda view: key_text(view.row.key), "key"),
    processName=Property(nullable(TEXT), lambda view: view.definition.name or None),
    processDefinitionKey=Property(KEY, lambda view: key_text(view.definition.number), "definition_number"),
    processInstanceKey=Property(KEY, lambda view: key_text(key_of(view.instance)), "instance_key"),
    rootProcessInstanceKey=Property(nullable(KEY), lambda view: optional_key(view.root)),
    businessId=Property(nullable(TEXT), lambda view: (view.instance and view.instance.business_key) or None),
    formKey=constant(nullable(KEY), None),
    tags=constant(TEXTS, []),
    priority=Property(NUMBER, lambda view: view.row.priority, "priority"),
)


def value_text(view: VariableView) -> str:
    """The whole value as JSON, without what is sensitive: a client that may only search is no worker."""
    (value,) = hide({view.row.name: view.row.value}).values()
    return json.dumps(value, cls=DjangoJSONEncoder, ensure_ascii=False)


VARIABLE = Response[[VariableView]](
    "VariableSearchResult",
    value=Property(TEXT, value_text),
    isTruncated=constant(FLAG, False),
    name=Property(TEXT, lambda view: view.row.name, "name"),
    tenantId=Property(TEXT, lambda view: zeebe_format.tenant(view.instance.tenant_id if view.instance else "")),
    variableKey=constant(KEY, str(zeebe_format.NO_KEY)),
    scopeKey=Property(KEY, lambda view: key_text(view.scope)),
    processInstanceKey=Property(KEY, lambda view: key_text(key_of(view.instance)), "instance_key"),
    rootProcessInstanceKey=Property(nullable(KEY), lambda view: optional_key(view.root)),
)


def truncated(shown: dict[str, Any]) -> dict[str, Any]:
    """A variable whose text is cut if it is long."""
    text = shown["value"]
    return shown if len(text) <= _VALUE_LENGTH else {**shown, "value": text[:_VALUE_LENGTH], "isTruncated": True}


_DEPLOYED_PROCESS: Response[[Any]] = Response(
    "DeploymentProcessResult",
    processDefinitionId=Property(TEXT, lambda each: each.definition.key),
    processDefinitionVersion=Property(NUMBER, lambda each: each.definition.version),
    resourceName=Property(TEXT, lambda each: each.file),
    tenantId=Property(TEXT, lambda each: zeebe_format.tenant(each.definition.tenant_id)),
    processDefinitionKey=Property(KEY, lambda each: key_text(each.definition.number)),
)
_NOTHING = constant(nullable(OBJECT), None)
_METADATA: Response[[Any]] = Response(
    "DeploymentMetadataResult",
    processDefinition=_DEPLOYED_PROCESS.one(lambda each: each),
    decisionDefinition=_NOTHING,
    decisionRequirements=_NOTHING,
    form=_NOTHING,
    resource=_NOTHING,
)


def _all(key: int, tenant: str, made: list[Deployed]) -> list[Any]:
    return list(made)


#: Made of the key of a deployment, its tenant and what was deployed.
DEPLOYMENT = Response[[int, str, list[Deployed]]](
    "DeploymentResult",
    deploymentKey=Property(KEY, lambda key, tenant, made: str(key)),
    tenantId=Property(TEXT, lambda key, tenant, made: zeebe_format.tenant(tenant)),
    deployments=_METADATA.several(_all),
)
#: Made of an instance, its definition's number and version, and the variables of its end.
CREATED = Response[[ProcessInstance, int | None, int | None, dict[str, Any]]](
    "CreateProcessInstanceResult",
    processDefinitionId=Property(TEXT, lambda row, number, version, variables: row.definition_key),
    processDefinitionVersion=Property(NUMBER, lambda row, number, version, variables: version or -1),
    tenantId=Property(TEXT, lambda row, number, version, variables: zeebe_format.tenant(row.tenant_id)),
    variables=Property(OBJECT, lambda row, number, version, variables: variables),
    processDefinitionKey=Property(KEY, lambda row, number, version, variables: key_text(number)),
    processInstanceKey=Property(KEY, lambda row, number, version, variables: key_text(row.key)),
    tags=constant(TEXTS, []),
    businessId=Property(nullable(TEXT), lambda row, number, version, variables: row.business_key or None),
)
