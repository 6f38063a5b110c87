"""Definitions, instances, messages, signals and user tasks, one by one."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from typing import Any

from asgiref.sync import sync_to_async
from django.core.exceptions import SuspiciousOperation
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.http.multipartparser import MultiPartParserError

from jobexec.gateways import auth, long_polling, zeebe_format
from jobexec.gateways.auth import client_of
from jobexec.gateways.rest.camunda8.contract import Property, Request, Response, optional, required
from jobexec.gateways.rest.camunda8.endpoint import Operation, async_endpoint, endpoint
from jobexec.gateways.rest.camunda8.problems import INVALID_ARGUMENT, Refused
from jobexec.gateways.rest.camunda8.values import (
    ANYTHING,
    FLAG,
    INT32,
    KEY,
    NOT_BLANK,
    NUMBER,
    OBJECT,
    TEXT,
    TEXTS,
    ignored,
    integer,
)
from jobexec.gateways.rest.common import caller_of, database, in_database, json_answer, nothing
from jobexec.gateways.rest.waiting_room import release_thread
from jobexec.operations.audit import carried
from jobexec.operations.history.keys import next_keys
from jobexec.runtime.database_threads import once

from ...models import ProcessDefinition, ProcessInstance
from ...operations import user_tasks
from .. import awaiting, found, verbs
from ..instructions import invalid_unless_fitting
from .changes import START_INSTRUCTIONS, start_commands
from .shown import CREATED, DEPLOYMENT, PROCESS_DEFINITION, PROCESS_INSTANCE, USER_TASK
from .views import definition_views, instance_views, task_views

_NOT_FOUND = (404,)
_REFERENCE = {"operationReference": optional(ignored(NUMBER))}


@endpoint(
    "deploy",
    operation=Operation("createDeployment", "Deploy BPMN files, as a form with files", gives=DEPLOYMENT),
    form_limit=verbs.MOST_BYTES,
)
def deployment(request: HttpRequest) -> HttpResponse:
    """POST /deployments: a form with ``resources`` (files) and ``tenantId``."""
    try:
        files = [(file.name or "", file) for file in request.FILES.getlist("resources")]
        tenant = zeebe_format.tenant_id(request.POST.get("tenantId", ""))
    except (MultiPartParserError, SuspiciousOperation) as error:
        raise Refused(INVALID_ARGUMENT, f"The body: expected a form with files: {error}.") from error
    contents = [(name, file.read()) for name, file in files]
    made = verbs.deploy_files(
        database(), contents, tenant_id=tenant, caller=caller_of(request), user=client_of(request).user_name
    )
    return json_answer(DEPLOYMENT.of(found.deployment_key(database(), made), tenant, made))


@endpoint(
    "search",
    operation=Operation(
        "getProcessDefinition", "Get a process definition", gives=PROCESS_DEFINITION, problems=_NOT_FOUND
    ),
)
def definition(request: HttpRequest, process_definition_key: int) -> HttpResponse:
    """GET /process-definitions/{processDefinitionKey}."""
    row = found.definition(database(), caller_of(request), process_definition_key)
    return json_answer(PROCESS_DEFINITION.of(definition_views(database(), [row])[0]))


@endpoint("search", operation=Operation("getProcessDefinitionXML", "Get the file of a process", problems=_NOT_FOUND))
def definition_xml(request: HttpRequest, process_definition_key: int) -> HttpResponse:
    """GET /process-definitions/{processDefinitionKey}/xml."""
    row = found.definition(database(), caller_of(request), process_definition_key)
    response = HttpResponse(found.resource(database(), row).text, content_type="text/xml; charset=utf-8")
    # A file of a client, below the address of the site: a browser is to store it, and to run nothing of it.
    response["Content-Disposition"] = 'attachment; filename="process.bpmn"'
    response["Content-Security-Policy"] = "default-src 'none'; sandbox"
    return response


_CREATION = Request(
    "ProcessInstanceCreationInstruction",
    processDefinitionId=optional(TEXT, "", "The id of the process in its file; or its key."),
    processDefinitionKey=optional(KEY, 0),
    processDefinitionVersion=optional(integer(-1, INT32), -1, "-1: the latest."),
    processDefinitionVersionTag=optional(TEXT, ""),
    variables=optional(OBJECT),
    tenantId=optional(TEXT, ""),
    businessId=optional(TEXT, ""),
    awaitCompletion=optional(FLAG, False, "Respond when the instance has ended, with its variables."),
    requestTimeout=optional(integer(), 0, "Milliseconds to wait for its end; 0 for the server's default."),
    fetchVariables=optional(TEXTS, (), "The names of the variables to return; an empty list for all."),
    startInstructions=optional(START_INSTRUCTIONS, (), "Elements to start before, instead of the start event."),
    runtimeInstructions=optional(ANYTHING, None, "Not supported."),
    tags=optional(ignored(ANYTHING)),
    **_REFERENCE,
)
_Started = tuple[ProcessDefinition, ProcessInstance]


@async_endpoint(
    "start",
    operation=Operation(
        "createProcessInstance", "Start a process", _CREATION, gives=CREATED, problems=(404, 409, 502, 504)
    ),
)
async def start(request: HttpRequest, body: Mapping[str, Any]) -> HttpResponseBase:
    """POST /process-instances. The instance goes on when the client leaves, or its time is over."""
    if body["runtimeInstructions"]:
        raise Refused(INVALID_ARGUMENT, "runtimeInstructions: expected none: an instance goes on to its end.")
    if not body["processDefinitionKey"] and not body["processDefinitionId"].strip():
        raise Refused(
            INVALID_ARGUMENT, "processDefinitionId: expected a string, or a processDefinitionKey, got neither."
        )
    if not body["awaitCompletion"]:
        return await _start_only(request, body=body)
    hub, client = long_polling.of(database()), client_of(request).key
    until = time.monotonic() + awaiting.seconds_for(body["requestTimeout"])
    if not isinstance(request, ASGIRequest):
        return await sync_to_async(_start_and_wait_in_thread)(request, body, hub, until)
    await release_thread()
    with awaiting.place_for(hub, client) as (id, place):
        definition, row = await hub.run(carried(partial(_start, request, body, awaited=id)))
        row = await awaiting.wait(hub, place, row, until, lambda: hub.run(auth.is_still_let_in, request))
    return _created(definition, row, body)


def _start(request: HttpRequest, body: Mapping[str, Any], **more: Any) -> _Started:
    caller, version = caller_of(request), body["processDefinitionVersion"]
    definition = found.wanted(
        database(),
        caller,
        body["processDefinitionKey"],
        body["processDefinitionId"],
        version if version > 0 else None,
        zeebe_format.tenant_id(body["tenantId"]),
        body["processDefinitionVersionTag"],
    )
    with invalid_unless_fitting():
        row = once(
            verbs.start_process,
            database(),
            definition,
            body["variables"],
            business_key=body["businessId"],
            user=client_of(request).user_name,
            commands=start_commands(body["startInstructions"]),
            **more,
        )
    return definition, row


@in_database
def _start_only(request: HttpRequest, body: Mapping[str, Any]) -> HttpResponse:
    definition, row = _start(request, body)
    return json_answer(CREATED.of(row, definition.number, definition.version, {}))


def _start_and_wait_in_thread(
    request: HttpRequest, body: Mapping[str, Any], hub: long_polling.Hub, until: float
) -> HttpResponse:
    # In the request's thread. A server has few threads, so the hub lets only some of them wait.
    with awaiting.place_in_thread(hub, client_of(request).key) as (id, place):
        definition, row = _start(request, body, awaited=id)
        row = awaiting.wait_in_thread(hub, place, row, until, partial(auth.is_still_let_in, request))
    return _created(definition, row, body)


def _created(definition: ProcessDefinition, row: ProcessInstance, body: Mapping[str, Any]) -> HttpResponse:
    result = awaiting.result_of(row, body["fetchVariables"])
    return json_answer(CREATED.of(row, definition.number, definition.version, result))


@endpoint(
    "search",
    operation=Operation("getProcessInstance", "Get a process instance", gives=PROCESS_INSTANCE, problems=_NOT_FOUND),
)
def instance(request: HttpRequest, process_instance_key: int) -> HttpResponse:
    """GET /process-instances/{processInstanceKey}."""
    row = found.instance(database(), caller_of(request), process_instance_key)
    return json_answer(PROCESS_INSTANCE.of(instance_views(database(), [row])[0]))


_CANCELLATION = Request("CancelProcessInstanceRequest", **_REFERENCE)


@endpoint(
    "update",
    operation=Operation("cancelProcessInstance", "Cancel a process instance", _CANCELLATION, problems=_NOT_FOUND),
)
def cancellation(request: HttpRequest, body: Mapping[str, Any], process_instance_key: int) -> HttpResponse:
    """POST /process-instances/{processInstanceKey}/cancellation."""
    verbs.cancel(database(), found.instance(database(), caller_of(request), process_instance_key))
    return nothing()


_VARIABLES = Request("SetVariableRequest", variables=required(OBJECT), local=optional(FLAG, False), **_REFERENCE)


@endpoint(
    "update",
    operation=Operation("createElementInstanceVariables", "Set variables", _VARIABLES, problems=_NOT_FOUND),
)
def variables(request: HttpRequest, body: Mapping[str, Any], element_instance_key: int) -> HttpResponse:
    """PUT /element-instances/{elementInstanceKey}/variables: of an instance, a user task or a job's element."""
    scope = found.scope(database(), caller_of(request), element_instance_key)
    verbs.set_variables(database(), scope.instance, body["variables"], scope=scope, local=body["local"])
    return nothing()


_CORRELATION = Request(
    "MessageCorrelationRequest",
    name=required(NOT_BLANK),
    correlationKey=optional(
        TEXT, "", "The correlation key of the waiting instance; without one, a start event or any waiting instance."
    ),
    variables=optional(OBJECT),
    tenantId=optional(TEXT, ""),
    businessId=optional(TEXT, ""),
)
_CORRELATED = Response[[int, ProcessInstance]](
    "MessageCorrelationResult",
    tenantId=Property(TEXT, lambda key, row: zeebe_format.tenant(row.tenant_id)),
    messageKey=Property(KEY, lambda key, row: str(key)),
    processInstanceKey=Property(KEY, lambda key, row: str(row.key)),
)


@endpoint(
    "publish",
    operation=Operation(
        "correlateMessage", "Deliver a message now", _CORRELATION, gives=_CORRELATED, problems=(404, 502)
    ),
)
def correlation(request: HttpRequest, body: Mapping[str, Any]) -> HttpResponse:
    """POST /messages/correlation."""
    (row,) = once(
        verbs.correlate_message,
        database(),
        body["name"],
        key=body["correlationKey"] or None,
        business_key=body["businessId"] or None,
        variables=body["variables"],
        tenant_id=zeebe_format.tenant_id(body["tenantId"]),
        caller=caller_of(request),
    )
    return json_answer(_CORRELATED.of(next_keys(database(), 1)[0], row))


_SIGNAL = Request(
    "SignalBroadcastRequest",
    signalName=required(NOT_BLANK),
    variables=optional(OBJECT),
    tenantId=optional(TEXT, ""),
)
_BROADCAST = Response[[int, str]](
    "SignalBroadcastResult",
    tenantId=Property(TEXT, lambda key, tenant: zeebe_format.tenant(tenant)),
    signalKey=Property(KEY, lambda key, tenant: str(key)),
)


@endpoint(
    "publish", operation=Operation("broadcastSignal", "Throw a signal", _SIGNAL, gives=_BROADCAST, problems=(502,))
)
def broadcast(request: HttpRequest, body: Mapping[str, Any]) -> HttpResponse:
    """POST /signals/broadcast."""
    tenant = zeebe_format.tenant_id(body["tenantId"])
    key = once(
        verbs.broadcast_signal,
        database(),
        body["signalName"],
        body["variables"],
        tenant_id=tenant,
        caller=caller_of(request),
    )
    return json_answer(_BROADCAST.of(key, tenant))


@endpoint(
    "search",
    "tasks",
    operation=Operation("getUserTask", "Get a user task", gives=USER_TASK, problems=_NOT_FOUND),
)
def task(request: HttpRequest, user_task_key: int) -> HttpResponse:
    """GET /user-tasks/{userTaskKey}."""
    row = found.task(database(), caller_of(request), user_task_key)
    return json_answer(USER_TASK.of(task_views(database(), [row])[0]))


_ASSIGNMENT = Request(
    "UserTaskAssignmentRequest",
    assignee=required(NOT_BLANK),
    allowOverride=optional(FLAG, True, "Whether the task may be taken from another assignee."),
    action=optional(ignored(TEXT)),
)


@endpoint(
    "tasks",
    operation=Operation("assignUserTask", "Assign a user task", _ASSIGNMENT, problems=(404, 409)),
)
def assignment(request: HttpRequest, body: Mapping[str, Any], user_task_key: int) -> HttpResponse:
    """POST /user-tasks/{userTaskKey}/assignment."""
    row = found.task(database(), caller_of(request), user_task_key)
    verbs.check_user(body["assignee"])
    user_tasks.claim(row, body["assignee"], override=body["allowOverride"], using=database())
    return nothing()


@endpoint("tasks", operation=Operation("unassignUserTask", "Unassign a user task", problems=(404, 409)))
def unassignment(request: HttpRequest, user_task_key: int) -> HttpResponse:
    """DELETE /user-tasks/{userTaskKey}/assignee."""
    user_tasks.release(found.task(database(), caller_of(request), user_task_key), using=database())
    return nothing()


_COMPLETION = Request("UserTaskCompletionRequest", variables=optional(OBJECT), action=optional(ignored(TEXT)))


@endpoint(
    "tasks",
    operation=Operation("completeUserTask", "Complete a user task", _COMPLETION, problems=(404, 409)),
)
def completion(request: HttpRequest, body: Mapping[str, Any], user_task_key: int) -> HttpResponse:
    """POST /user-tasks/{userTaskKey}/completion."""
    row = found.task(database(), caller_of(request), user_task_key)
    user_tasks.complete(row, body["variables"], using=database())
    return nothing()
