"""Commands of workers and operators on a job or an incident, one transaction each."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from urllib.parse import unquote

from jobexec.gateways import auth, zeebe_format
from jobexec.operations import external
from jobexec.operations.audit import acting
from jobexec.operations.external.publish import publish_external_message
from jobexec.operations.external.types import Completion
from jobexec.operations.values.operator import Operator

from . import gateway_pb2 as pb
from .call_context import CallContext
from .codes import BadRequest
from .requests import lease, milliseconds, variables


def operator(client: auth.Client, context: Any) -> Operator:
    """The client of a call as the audit log names it."""
    _protocol, _colon, address = unquote(context.peer()).partition(":")  # as ipv4:192.0.2.1:50000
    return auth.operator_of(client, "gRPC", address.rpartition(":")[0].strip("[]"))


class Commands:
    """Each method answers a call of a client whose permission has been checked."""

    def __init__(self, call_context: CallContext) -> None:
        self.call_context = call_context

    async def complete(
        self, request: pb.CompleteJobRequest, context: Any, client: auth.Client
    ) -> pb.CompleteJobResponse:
        sent, token = variables(request.variables), lease(request)
        await self.call_context.complete(Completion(request.jobKey, sent, lease=token, caller=client.caller))
        return pb.CompleteJobResponse()

    async def fail(self, request: pb.FailJobRequest, context: Any, client: auth.Client) -> pb.FailJobResponse:
        """Fail a job. The variables stay with it and do not pass to what follows it. Negative retries count as 0."""
        await self.call_context.finish(
            external.fail_external_job,
            request.jobKey,
            retries=max(0, request.retries),
            message=request.errorMessage,
            back_off=milliseconds(max(0, request.retryBackOff), "retryBackOff"),
            local_variables=variables(request.variables),
            lease=lease(request),
            caller=client.caller,
        )
        return pb.FailJobResponse()

    async def throw_error(
        self, request: pb.ThrowErrorRequest, context: Any, client: auth.Client
    ) -> pb.ThrowErrorResponse:
        await self.call_context.finish(
            external.throw_external_error,
            request.jobKey,
            code=request.errorCode,
            message=request.errorMessage,
            variables=variables(request.variables),
            lease=lease(request),
            caller=client.caller,
        )
        return pb.ThrowErrorResponse()

    async def update_timeout(
        self, request: pb.UpdateJobTimeoutRequest, context: Any, client: auth.Client
    ) -> pb.UpdateJobTimeoutResponse:
        """Move the deadline of a job; a worker may do this for a job that it holds."""
        timeout: timedelta = milliseconds(request.timeout, "timeout", least=1)
        await self.call_context.finish(
            external.extend_external_deadline, request.jobKey, timeout, lease=lease(request), caller=client.caller
        )
        return pb.UpdateJobTimeoutResponse()

    async def update_retries(
        self, request: pb.UpdateJobRetriesRequest, context: Any, client: auth.Client
    ) -> pb.UpdateJobRetriesResponse:
        if request.retries < 1:
            raise BadRequest(f"retries: expected at least 1, got {request.retries}.")
        with acting(operator(client, context)):
            await self.call_context.finish(
                external.set_external_retries,
                request.jobKey,
                request.retries,
                lease=lease(request),
                caller=client.caller,
            )
        auth.audit(client, "UpdateJobRetries", request.jobKey)
        return pb.UpdateJobRetriesResponse()

    async def update_priority(
        self, request: pb.UpdateJobPriorityRequest, context: Any, client: auth.Client
    ) -> pb.UpdateJobPriorityResponse:
        if not request.HasField("priority"):
            raise BadRequest("priority: expected a number, got nothing.")
        with acting(operator(client, context)):
            await self.call_context.finish(
                external.set_external_priority,
                request.jobKey,
                request.priority,
                lease=lease(request),
                caller=client.caller,
            )
        auth.audit(client, "UpdateJobPriority", request.jobKey)
        return pb.UpdateJobPriorityResponse()

    async def publish_message(
        self, request: pb.PublishMessageRequest, context: Any, client: auth.Client
    ) -> pb.PublishMessageResponse:
        """Publish a message. The time to live is cut to MESSAGE_MAX_TTL: clients send any length."""
        with acting(operator(client, context)):
            row = await self.call_context.once(
                publish_external_message,
                request.name,
                request.correlationKey,
                variables=variables(request.variables),
                ttl=milliseconds(request.timeToLive, "timeToLive"),
                message_id=request.messageId or None,
                tenant_id=zeebe_format.tenant_id(request.tenantId),
                caller=client.caller,
            )
        auth.audit(client, "PublishMessage", request.name)
        return pb.PublishMessageResponse(key=row.pk, tenantId=zeebe_format.tenant(row.tenant_id))

    async def resolve_incident(
        self, request: pb.ResolveIncidentRequest, context: Any, client: auth.Client
    ) -> pb.ResolveIncidentResponse:
        with acting(operator(client, context)):
            await self.call_context.finish(
                external.resolve_external_incident, request.incidentKey, caller=client.caller
            )
        auth.audit(client, "ResolveIncident", request.incidentKey)
        return pb.ResolveIncidentResponse()
