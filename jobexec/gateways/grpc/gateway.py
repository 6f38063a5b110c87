"""A gateway: an event loop in a thread of its own, with a server for gRPC in it."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterable
from typing import Any

import grpc
from google.protobuf.descriptor_pool import DescriptorPool
from grpc import aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2, reflection_pb2_grpc

from jobexec.exceptions import JobExecError

from . import gateway_pb2 as pb
from .call_context import CallContext
from .open_services import OpenServices
from .options import Options
from .service import INTERFACE, Service

logger = logging.getLogger("jobexec.gateway")

SERVICE = INTERFACE.full_name
#: What the health service is asked for: everything, or ours.
_HEALTHY = "", SERVICE
_LAST_WORDS = 0.5  # seconds, for answers that are on their way


class GatewayFailed(JobExecError):
    """The gateway cannot start."""


class GrpcGateway:
    """:meth:`start` returns when it serves, :meth:`stop` when it has ended; from any thread. It is started once."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.port = 0
        self._thread = threading.Thread(target=self._run, name="jobexec-grpc", daemon=True)
        self._started = threading.Event()
        self._error: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._call_context: CallContext | None = None
        self.service: Service | None = None

    def start(self) -> None:
        """Raises GatewayFailed, for example if the port is taken, and InvalidSettings for certificates that are not
        there."""
        self._credentials = self.options.credentials()
        self._thread.start()
        self._started.wait()
        if self._error is not None:
            raise GatewayFailed(f"The gateway cannot start: {self._error}") from self._error

    @property
    def alive(self) -> bool:
        """Whether it serves, or is on its way to its end."""
        return self._thread.is_alive()

    @property
    def running(self) -> int:
        """How many calls are being answered, also those that wait for jobs."""
        return 0 if self.service is None else self.service.running

    def stop(self) -> None:
        """Take no more calls, end streams and polls with OK, let the others end, at most for the grace period."""
        loop, call_context = self._loop, self._call_context
        if loop is not None and call_context is not None:
            try:
                loop.call_soon_threadsafe(call_context.stopping.set)
            except RuntimeError:
                logger.debug("The gateway has ended already")
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            self._error = error
            if self._started.is_set():
                logger.exception("The gateway has failed")
        finally:
            self._started.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        call_context = self._call_context = CallContext(self.options.using, self.options.threads)
        server = aio.server(options=self.options.of_channels())
        checks = health.aio.HealthServicer()  # type: ignore[attr-defined,unused-ignore]
        service = self.service = Service(call_context, self.options.max_streams, self.options.address)
        ours = grpc.method_handlers_generic_handler(SERVICE, service.handlers())
        server.add_generic_rpc_handlers((ours,))
        for_all = self._for_all = OpenServices(server)
        health_pb2_grpc.add_HealthServicer_to_server(checks, for_all)
        shown = reflection.aio.ReflectionServicer(  # type: ignore[attr-defined,unused-ignore]
            [SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME], pool=_pool()
        )
        reflection_pb2_grpc.add_ServerReflectionServicer_to_server(shown, for_all)
        self.port = service.port = self._bind(server)
        await server.start()
        await _say(checks, health_pb2.HealthCheckResponse.SERVING)
        self._started.set()
        await call_context.stopping.wait()
        await checks.enter_graceful_shutdown()
        await self._end(server, service)
        await call_context.all_given_back()

    async def _end(self, server: Any, service: Service) -> None:
        """New calls are refused from now on. Those who watch the health of the gateway are not waited for."""
        refusing = asyncio.get_running_loop().create_task(server.stop(self.options.grace))
        await asyncio.wait((refusing, service.idle()), return_when=asyncio.FIRST_COMPLETED)
        await server.stop(_LAST_WORDS)
        await refusing

    def _bind(self, server: Any) -> int:
        try:
            if self._credentials is None:
                return int(server.add_insecure_port(self.options.target))
            return int(server.add_secure_port(self.options.target, self._credentials))
        except RuntimeError as error:
            raise GatewayFailed(f"{self.options.target} is taken, or is no address of this machine.") from error


async def _say(checks: Any, status: Any) -> None:
    for name in _HEALTHY:
        await checks.set(name, status)


def _pool() -> DescriptorPool:
    """What reflection shows. Ours are not in the common pool, where a client for Zeebe may have put its own."""
    pool = DescriptorPool()
    files: Iterable[Any] = (pb.DESCRIPTOR, health_pb2.DESCRIPTOR, reflection_pb2.DESCRIPTOR)
    for file in files:
        pool.AddSerializedFile(file.serialized_pb)
    return pool
