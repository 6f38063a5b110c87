"""The calls about processes of Zeebe's gateway."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from jobexec.exceptions import NotAllowed, Unauthenticated
from jobexec.gateways import auth, zeebe_format
from jobexec.gateways.grpc import gateway_pb2 as pb
from jobexec.gateways.grpc.call_context import CallContext
from jobexec.gateways.grpc.codes import BadRequest
from jobexec.gateways.grpc.commands import operator
from jobexec.gateways.grpc.messages import json_text
from jobexec.gateways.grpc.requests import variables
from jobexec.gateways.grpc.service import Call
from jobexec.operations.audit import acting
from jobexec.operations.external.types import Caller
from jobexec.runtime.database_threads import once

from ..engine.inputs import Change
from ..models import ProcessDefinition, ProcessInstance
from ..operations.deploy import Deployed
from ..operations.modify import command
from . import awaiting, found, verbs
from .instructions import invalid_unless_fitting, modify

#: Seconds before the client's own timeout, so that it hears that its instance goes on.
_BEFORE_THE_END = 0.25
_MOST_VARIABLES = 1_000


def calls(call_context: CallContext) -> Mapping[str, Call]:
    """The calls by their names in the interface."""
    of = ProcessCalls(call_context)
    return {
        "DeployResource": Call(of.deploy, "deploy", "CREATE"),
        "DeployProcess": Call(of.deploy_processes, "deploy", "CREATE"),
        "CreateProcessInstance": Call(of.start, "start", "CREATE"),
        "CreateProcessInstanceWithResult": Call(of.start_and_wait, "start", "CREATE_WITH_AWAITING_RESULT"),
        "CancelProcessInstance": Call(of.cancel, "update", "CANCEL"),
        "ModifyProcessInstance": Call(of.modify, "update", "MODIFY"),
        "SetVariables": Call(of.set_variables, "update", "UPDATE"),
        "BroadcastSignal": Call(of.broadcast, "publish", "BROADCAST"),
    }


class ProcessCalls:
    """Each method answers a call of a client whose permission has been checked."""

    def __init__(self, call_context: CallContext) -> None:
        self.call_context = call_context

    async def deploy(
        self, request: pb.DeployResourceRequest, context: Any, client: auth.Client
    ) -> pb.DeployResourceResponse:
        tenant = zeebe_format.tenant_id(request.tenantId)
        files = [(each.name, each.content) for each in request.resources]
        key, made = await self._deploy(files, tenant, context, client)
        deployments = [pb.Deployment(process=_metadata(each)) for each in made]
        return pb.DeployResourceResponse(key=key, deployments=deployments, tenantId=zeebe_format.tenant(tenant))

    async def deploy_processes(
        self, request: pb.DeployProcessRequest, context: Any, client: auth.Client
    ) -> pb.DeployProcessResponse:
        """As older clients ask for it: always without a tenant."""
        files = [(each.name, each.definition) for each in request.processes]
        key, made = await self._deploy(files, "", context, client)
        return pb.DeployProcessResponse(key=key, processes=map(_metadata, made))

    async def _deploy(
        self, files: Sequence[tuple[str, bytes]], tenant: str, context: Any, client: auth.Client
    ) -> tuple[int, list[Deployed]]:
        with acting(operator(client, context)):
            made = await self.call_context.once(
                verbs.deploy_files, files, tenant_id=tenant, caller=client.caller, user=client.user_name
            )
            key = await self.call_context.finish(found.deployment_key, made)
        auth.audit(client, "DeployResource", ", ".join(name for name, _ in files))
        return key, made

    async def start(
        self, request: pb.CreateProcessInstanceRequest, context: Any, client: auth.Client
    ) -> pb.CreateProcessInstanceResponse:
        started = partial(_start, given=_given(request), client=client)
        with acting(operator(client, context)):
            definition, row = await self.call_context.finish(started)
        return pb.CreateProcessInstanceResponse(**_whereabouts(definition, row))

    async def start_and_wait(
        self, request: pb.CreateProcessInstanceWithResultRequest, context: Any, client: auth.Client
    ) -> pb.CreateProcessInstanceWithResultResponse:
        """The instance goes on when the client leaves, or its time is over."""
        given, names = _given(request.request), frozenset(request.fetchVariables)
        if len(names) > _MOST_VARIABLES:
            raise BadRequest(f"fetchVariables: expected at most {_MOST_VARIABLES:,} values, got {len(names):,}.")
        until = time.monotonic() + _seconds(request, context)
        hub = self.call_context.hub
        with awaiting.place_for(hub, client.key) as (id, place):
            with acting(operator(client, context)):
                started = partial(_start, given=given, client=client, awaited=id)
                definition, row = await self.call_context.finish(started)
            allowed, stopping = partial(self._allowed, context, client), self.call_context.stopping.is_set
            row = await awaiting.wait(hub, place, row, until, allowed, self.call_context.unless_stopping, stopping)
        result = json_text(awaiting.result_of(row, names))
        return pb.CreateProcessInstanceWithResultResponse(**_whereabouts(definition, row), variables=result)

    async def _allowed(self, context: Any, before: auth.Client) -> bool:
        try:
            client = await self.call_context.client(context)
        except (Unauthenticated, NotAllowed):
            return False
        return client.caller == before.caller and client.may("start")

    async def cancel(
        self, request: pb.CancelProcessInstanceRequest, context: Any, client: auth.Client
    ) -> pb.CancelProcessInstanceResponse:
        with acting(operator(client, context)):
            await self.call_context.finish(_cancel, request.processInstanceKey, client.caller)
        auth.audit(client, "CancelProcessInstance", request.processInstanceKey)
        return pb.CancelProcessInstanceResponse()

    async def modify(
        self, request: pb.ModifyProcessInstanceRequest, context: Any, client: auth.Client
    ) -> pb.ModifyProcessInstanceResponse:
        given = _instructions(request)
        with acting(operator(client, context)):
            await self.call_context.once(modify, client.caller, request.processInstanceKey, given)
        auth.audit(client, "ModifyProcessInstance", request.processInstanceKey)
        return pb.ModifyProcessInstanceResponse()

    async def set_variables(
        self, request: pb.SetVariablesRequest, context: Any, client: auth.Client
    ) -> pb.SetVariablesResponse:
        given = variables(request.variables) or {}
        with acting(operator(client, context)):
            key = await self.call_context.finish(
                _set_variables, request.elementInstanceKey, given, request.local, client.caller
            )
        auth.audit(client, "SetVariables", request.elementInstanceKey)
        return pb.SetVariablesResponse(key=key)

    async def broadcast(
        self, request: pb.BroadcastSignalRequest, context: Any, client: auth.Client
    ) -> pb.BroadcastSignalResponse:
        tenant = zeebe_format.tenant_id(request.tenantId)
        given = variables(request.variables)
        with acting(operator(client, context)):
            key = await self.call_context.once(
                verbs.broadcast_signal, request.signalName, given, tenant_id=tenant, caller=client.caller
            )
        return pb.BroadcastSignalResponse(key=key, tenantId=zeebe_format.tenant(tenant))


def _given(request: pb.CreateProcessInstanceRequest) -> dict[str, Any]:
    if not request.processDefinitionKey and not request.bpmnProcessId.strip():
        raise BadRequest("bpmnProcessId: expected the id of a process, or a processDefinitionKey, got neither.")
    return {
        "number": request.processDefinitionKey,
        "key": request.bpmnProcessId,
        "version": request.version if request.version > 0 else None,
        "tenant": zeebe_format.tenant_id(request.tenantId),
        "variables": variables(request.variables),
        "commands": [command(Change.BEFORE, each.elementId, None) for each in request.startInstructions],
    }


def _start(using: str, given: Mapping[str, Any], client: auth.Client, **more: Any) -> tuple[ProcessDefinition, Any]:
    definition = found.wanted(using, client.caller, given["number"], given["key"], given["version"], given["tenant"])
    more |= {"user": client.user_name, "commands": given["commands"]}
    with invalid_unless_fitting():
        return definition, once(verbs.start_process, using, definition, given["variables"], **more)


def _cancel(using: str, key: int, caller: Caller) -> None:
    verbs.cancel(using, found.instance(using, caller, key))


def _instructions(request: pb.ModifyProcessInstanceRequest) -> dict[str, Any]:
    """As the REST gateway gets them."""
    activated = [
        {
            "elementId": each.elementId,
            "ancestorElementInstanceKey": each.ancestorElementInstanceKey,
            "variableInstructions": [
                {"variables": variables(one.variables) or {}, "scopeId": one.scopeId}
                for one in each.variableInstructions
            ],
        }
        for each in request.activateInstructions
    ]
    if not all(each.elementId.strip() for each in request.activateInstructions):
        raise BadRequest("activateInstructions: expected the elementId of each, got a blank string.")
    terminated = [
        {"elementInstanceKey": each.elementInstanceKey, "elementId": ""} for each in request.terminateInstructions
    ]
    return {"activateInstructions": activated, "terminateInstructions": terminated}


def _set_variables(using: str, key: int, given: Mapping[str, Any], local: bool, caller: Caller) -> int:
    scope = found.scope(using, caller, key)
    return verbs.set_variables(using, scope.instance, given, scope=scope, local=local)


def _seconds(request: pb.CreateProcessInstanceWithResultRequest, context: Any) -> float:
    remaining = context.time_remaining()
    seconds = awaiting.seconds_for(request.requestTimeout)
    return seconds if remaining is None else min(seconds, remaining - _BEFORE_THE_END)


def _metadata(each: Deployed) -> pb.ProcessMetadata:
    row = each.definition
    return pb.ProcessMetadata(
        bpmnProcessId=row.key,
        version=row.version or 0,
        processDefinitionKey=row.number or zeebe_format.NO_KEY,
        resourceName=each.file,
        tenantId=zeebe_format.tenant(row.tenant_id),
    )


def _whereabouts(definition: ProcessDefinition, row: ProcessInstance) -> dict[str, Any]:
    return {
        "processDefinitionKey": definition.number or zeebe_format.NO_KEY,
        "bpmnProcessId": definition.key,
        "version": definition.version or 0,
        "processInstanceKey": row.key,
        "tenantId": zeebe_format.tenant(row.tenant_id),
    }
