"""The calls of the interface: permissions, errors, and the limit for waiting calls."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import grpc

from jobexec.gateways import added, auth
from jobexec.gateways.long_polling import Shares

from . import gateway_pb2 as pb
from .call_context import CallContext
from .codes import status_of
from .commands import Commands
from .messages import read
from .polls import Polls
from .stream_dispatch import Feeds
from .topology import topology

INTERFACE = pb.DESCRIPTOR.services_by_name["Gateway"]


@dataclass(frozen=True, slots=True)
class Call:
    """A call of the interface. ``permission`` is what the client needs, ``command`` Zeebe's name in rejections.

    ``waits``: the call waits for jobs and writes its responses itself. ``counts``: the allowance that it counts
    against.
    """

    work: Callable[[Any, Any, auth.Client], Awaitable[Any]]
    permission: str = ""
    command: str = ""
    waits: bool = False
    counts: auth.Allowance = auth.REQUESTS


class Service:
    """The Gateway service. At most ``most_open`` calls wait for jobs, and no single client can take all places.

    The caller is verified and the call counted before its message is received, so a refused call costs no more than its
    headers.
    """

    def __init__(self, call_context: CallContext, most_open: int, host: str) -> None:
        self.call_context, self.host, self.port = call_context, host, 0
        self.running = 0
        self._places = Shares(most_open)
        self._idle: asyncio.Future[None] | None = None
        self._polls, self._feeds, commands = Polls(call_context), Feeds(call_context), Commands(call_context)
        self._calls = {
            "ActivateJobs": Call(self._polls.activate, "work", waits=True),
            "StreamActivatedJobs": Call(self._feeds.stream, "work", waits=True),
            "CompleteJob": Call(commands.complete, "work", "COMPLETE", counts=auth.RESULTS),
            "FailJob": Call(commands.fail, "work", "FAIL", counts=auth.REPORTS),
            "ThrowError": Call(commands.throw_error, "work", "THROW_ERROR", counts=auth.RESULTS),
            "UpdateJobTimeout": Call(commands.update_timeout, "work", "UPDATE_TIMEOUT", counts=auth.REPORTS),
            "UpdateJobRetries": Call(commands.update_retries, "update", "UPDATE_RETRIES"),
            "UpdateJobPriority": Call(commands.update_priority, "update", "UPDATE"),
            "ResolveIncident": Call(commands.resolve_incident, "resolve", "RESOLVE"),
            "PublishMessage": Call(commands.publish_message, "publish", "PUBLISH"),
            "Topology": Call(self._topology, counts=auth.REPORTS),
        }
        for calls in added.calls(added.GRPC):
            self._calls |= calls(call_context)

    @property
    def open(self) -> int:
        """The number of calls that wait for jobs."""
        return self._places.taken

    def handlers(self) -> dict[str, grpc.RpcMethodHandler[Any, Any]]:
        """The handlers for gRPC, by method name.

        Requests are declared as streams of which only the first message is read: there is no difference on the wire,
        and gRPC receives the message only on demand.
        """
        methods = (method for method in INTERFACE.methods if method.name in self._calls)
        return {method.name: self._handler(method, self._calls[method.name]) for method in methods}

    def _handler(self, method: Any, call: Call) -> grpc.RpcMethodHandler[Any, Any]:
        async def behaviour(_messages: object, context: Any) -> Any:
            return await self._answer(context, call)

        make = grpc.stream_stream_rpc_method_handler if call.waits else grpc.stream_unary_rpc_method_handler
        request, response = (getattr(pb, kind.name) for kind in (method.input_type, method.output_type))
        return make(behaviour, request_deserializer=request.FromString, response_serializer=response.SerializeToString)

    async def _topology(self, request: pb.TopologyRequest, context: Any, client: auth.Client) -> pb.TopologyResponse:
        return topology(self.host, self.port)

    async def _work(self, context: Any, call: Call) -> Any:
        client = await self.call_context.client(context)
        if call.permission:
            client.check(call.permission)
        auth.limit(client, call.counts)
        with self._place(call, client):
            answer = await call.work(await read(context), context, client)
        auth.succeeded(client, call.counts)
        return answer

    @contextmanager
    def _place(self, call: Call, client: auth.Client) -> Iterator[None]:
        """Hold a place for the call if it waits for jobs."""
        if not call.waits:
            yield
            return
        with self._places.place(client.key):
            yield

    def idle(self) -> asyncio.Future[None]:
        """A future that is done when no call runs any longer; requested once, at shutdown."""
        self._idle = asyncio.get_running_loop().create_future()
        self._look()
        return self._idle

    def _look(self) -> None:
        if not self.running and self._idle is not None and not self._idle.done():
            self._idle.set_result(None)

    async def _answer(self, context: Any, call: Call) -> Any:
        """Answer a call; an error ends it with the error's status."""
        self.running += 1
        try:
            return await self._work(context, call)
        except Exception as error:
            if context.done():
                raise asyncio.CancelledError from error  # the client has disconnected
            code, text = status_of(error, call.command)
            await context.abort(code, text)
            raise AssertionError("abort() raises") from error
        finally:
            self.running -= 1
            self._look()
