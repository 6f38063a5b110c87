"""Modifying, suspending and resuming instances."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.http import HttpRequest, HttpResponse

from jobexec.gateways.rest.camunda8.contract import Request, optional, required, several
from jobexec.gateways.rest.camunda8.endpoint import Operation, endpoint
from jobexec.gateways.rest.camunda8.problems import INVALID_ARGUMENT, INVALID_STATE, Refused
from jobexec.gateways.rest.camunda8.values import ANYTHING, KEY, NOT_BLANK, NUMBER, OBJECT, TEXT, ignored
from jobexec.gateways.rest.common import caller_of, database, nothing
from jobexec.models import SuspensionScope
from jobexec.runtime.database_threads import once

from ...engine.inputs import Change, Command
from ...models import InstanceState
from ...models.instance import RUNNING
from ...operations.modify import command
from ...operations.suspend import activate, suspend
from ...store.suspensions import covering, suspended
from .. import found, verbs
from ..instructions import modify

_REFERENCE = {"operationReference": optional(ignored(NUMBER))}
_VARIABLES = Request(variables=required(OBJECT), scopeId=optional(TEXT, "", "Not supported: the instance's."))
_ACTIVATE = Request(
    elementId=required(NOT_BLANK),
    variableInstructions=optional(several(_VARIABLES, verbs.MOST_COMMANDS), ()),
    ancestorElementInstanceKey=optional(KEY, 0, "The instance; keys of other scopes are not known."),
)
_TERMINATE = Request(
    elementInstanceKey=optional(KEY, 0, "Of a user task, or of the element of an activated job."),
    elementId=optional(TEXT, "", "Everything active at the element."),
)
_MODIFICATION = Request(
    "ProcessInstanceModificationInstruction",
    activateInstructions=optional(several(_ACTIVATE, verbs.MOST_COMMANDS), ()),
    terminateInstructions=optional(several(_TERMINATE, verbs.MOST_COMMANDS), ()),
    moveInstructions=optional(ANYTHING, None, "Not supported: terminate and activate."),
    **_REFERENCE,
)


@endpoint(
    "update",
    operation=Operation("modifyProcessInstance", "Modify a process instance", _MODIFICATION, problems=(404, 409, 502)),
)
def modification(request: HttpRequest, body: Mapping[str, Any], process_instance_key: int) -> HttpResponse:
    """POST /process-instances/{processInstanceKey}/modification: what is terminated goes first, in one step."""
    if body["moveInstructions"]:
        raise Refused(INVALID_ARGUMENT, "moveInstructions: expected none: terminate an element and activate another.")
    once(modify, database(), caller_of(request), process_instance_key, body)
    return nothing()


#: ``startInstructions`` of a start.
START_INSTRUCTIONS = several(Request(elementId=required(NOT_BLANK)), verbs.MOST_COMMANDS)


def start_commands(given: Sequence[Mapping[str, Any]]) -> tuple[Command, ...]:
    """Where an instance begins instead of at its start event."""
    return tuple(command(Change.BEFORE, each["elementId"], None) for each in given)


_SUSPENSION = Request("SuspendProcessInstanceRequest", **_REFERENCE)
_RESUMPTION = Request("ResumeProcessInstanceRequest", **_REFERENCE)


@endpoint(
    "update",
    operation=Operation("suspendProcessInstance", "Suspend a process instance", _SUSPENSION, problems=(404, 409)),
)
def suspension(request: HttpRequest, body: Mapping[str, Any], process_instance_key: int) -> HttpResponse:
    """POST /process-instances/{processInstanceKey}/suspension."""
    row = found.instance(database(), caller_of(request), process_instance_key)
    if row.state != InstanceState.ACTIVE or suspended(database(), [row]):
        raise Refused(INVALID_STATE, f"Expected process instance '{process_instance_key}' to be ACTIVE, but it is not.")
    suspend(row, using=database())
    return nothing()


@endpoint(
    "update",
    operation=Operation("resumeProcessInstance", "Resume a process instance", _RESUMPTION, problems=(404, 409)),
)
def resumption(request: HttpRequest, body: Mapping[str, Any], process_instance_key: int) -> HttpResponse:
    """POST /process-instances/{processInstanceKey}/resumption: 409 if something else suspends it."""
    row = found.instance(database(), caller_of(request), process_instance_key)
    scopes = set(covering(database(), row.pk, row.definition_id, row.tenant_id).values_list("scope", flat=True))
    if row.state not in RUNNING or scopes != {SuspensionScope.PROCESS_INSTANCE}:
        told = "its process is suspended" if scopes else "it is not SUSPENDED"
        raise Refused(INVALID_STATE, f"Expected to resume process instance '{process_instance_key}', but {told}.")
    activate(row, using=database())
    return nothing()
