"""The calls of the interface, each with its errors and its place among all that are open."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from jobexec.gateways.hub import Overloaded

from . import gateway_pb2 as pb
from .bench import Bench
from .codes import status_of
from .commands import Commands
from .feeds import Feeds
from .gateway_pb2_grpc import GatewayServicer
from .polls import Polls
from .topology import topology

T = TypeVar("T")


class Service(GatewayServicer):
    """``most_open`` calls may wait for jobs at a time; whoever comes then is told to try again later."""

    def __init__(self, bench: Bench, most_open: int, host: str) -> None:
        self.bench, self.host, self.port = bench, host, 0
        self.open = self.running = 0
        self._most = most_open
        self._idle: asyncio.Future[None] | None = None
        self._polls, self._feeds, self._commands = Polls(bench), Feeds(bench), Commands(bench)

    async def ActivateJobs(self, request: pb.ActivateJobsRequest, context: Any) -> None:
        await self._answer(context, "", self._open(self._polls.activate(request, context)))

    async def StreamActivatedJobs(self, request: pb.StreamActivatedJobsRequest, context: Any) -> None:
        await self._answer(context, "", self._open(self._feeds.stream(request, context)))

    async def CompleteJob(self, request: pb.CompleteJobRequest, context: Any) -> pb.CompleteJobResponse:
        return await self._answer(context, "COMPLETE", self._commands.complete(request, context))

    async def FailJob(self, request: pb.FailJobRequest, context: Any) -> pb.FailJobResponse:
        return await self._answer(context, "FAIL", self._commands.fail(request, context))

    async def ThrowError(self, request: pb.ThrowErrorRequest, context: Any) -> pb.ThrowErrorResponse:
        return await self._answer(context, "THROW_ERROR", self._commands.throw_error(request, context))

    async def UpdateJobRetries(self, request: pb.UpdateJobRetriesRequest, context: Any) -> pb.UpdateJobRetriesResponse:
        return await self._answer(context, "UPDATE_RETRIES", self._commands.update_retries(request, context))

    async def UpdateJobTimeout(self, request: pb.UpdateJobTimeoutRequest, context: Any) -> pb.UpdateJobTimeoutResponse:
        return await self._answer(context, "UPDATE_TIMEOUT", self._commands.update_timeout(request, context))

    async def UpdateJobPriority(
        self, request: pb.UpdateJobPriorityRequest, context: Any
    ) -> pb.UpdateJobPriorityResponse:
        return await self._answer(context, "UPDATE", self._commands.update_priority(request, context))

    async def ResolveIncident(self, request: pb.ResolveIncidentRequest, context: Any) -> pb.ResolveIncidentResponse:
        return await self._answer(context, "RESOLVE", self._commands.resolve_incident(request, context))

    async def Topology(self, request: pb.TopologyRequest, context: Any) -> pb.TopologyResponse:
        return await self._answer(context, "", self._topology(context))

    async def _topology(self, context: Any) -> pb.TopologyResponse:
        await self.bench.client(context)
        return topology(self.host, self.port)

    async def _open(self, work: Coroutine[Any, Any, None]) -> None:
        """One of the calls that wait for jobs."""
        if self.open >= self._most:
            work.close()
            raise Overloaded(f"{self._most} calls wait for jobs here already; try again a moment later.")
        self.open += 1
        try:
            await work
        finally:
            self.open -= 1

    def idle(self) -> asyncio.Future[None]:
        """Done when no call runs any more; asked for once, at the end."""
        self._idle = asyncio.get_running_loop().create_future()
        self._look()
        return self._idle

    def _look(self) -> None:
        if not self.running and self._idle is not None and not self._idle.done():
            self._idle.set_result(None)

    async def _answer(self, context: Any, command: str, work: Coroutine[Any, Any, T]) -> T:
        """The answer; an error ends the call with its status."""
        self.running += 1
        try:
            return await work
        except Exception as error:
            if context.done():
                raise asyncio.CancelledError from error  # nobody is there to hear of it
            code, text = status_of(error, command)
            await context.abort(code, text)
            raise AssertionError("abort() raises") from error
        finally:
            self.running -= 1
            self._look()
