"""A gateway: a gRPC server in an event loop in its own thread."""

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
#: The names for health checks: the whole server, or the Gateway service.
_HEALTHY = "", SERVICE
_LAST_WORDS = 0.5  # seconds for responses that are being sent


class GatewayFailed(JobExecError):
    """The gateway cannot start."""


class GrpcGateway:
    """A gateway in its own thread, which can be started only once.

    :meth:`start` returns once it serves, :meth:`stop` once it has ended; call them from any thread.
    """

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
        """Start to serve. Raises GatewayFailed, e.g. if the port is in use, and InvalidSettings for bad TLS options."""
        self._credentials = self.options.credentials()
        self._thread.start()
        self._started.wait()
        if self._error is not None:
            raise GatewayFailed(f"The gateway cannot start: {self._error}") from self._error

    @property
    def alive(self) -> bool:
        """Whether the gateway serves or is shutting down."""
        return self._thread.is_alive()

    @property
    def running(self) -> int:
        """The number of calls in progress, including those that wait for jobs."""
        return 0 if self.service is None else self.service.running

    def stop(self) -> None:
        """Shut down: accept no calls, end streams and polls with OK, finish other calls within the grace period."""
        loop, call_context = self._loop, self._call_context
        if loop is not None and call_context is not None:
            try:
                loop.call_soon_threadsafe(call_context.stopping.set)
            except RuntimeError:
                logger.debug("The gateway has already ended")
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
        """Refuse new calls and wait for running ones, except for calls that watch the gateway's health."""
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
            raise GatewayFailed(f"{self.options.target} is in use, or is not an address of this machine.") from error


async def _say(checks: Any, status: Any) -> None:
    for name in _HEALTHY:
        await checks.set(name, status)


def _pool() -> DescriptorPool:
    """The descriptors for reflection. Ours are not in the default pool, where a Zeebe client may register its own."""
    pool = DescriptorPool()
    files: Iterable[Any] = (pb.DESCRIPTOR, health_pb2.DESCRIPTOR, reflection_pb2.DESCRIPTOR)
    for file in files:
        pool.AddSerializedFile(file.serialized_pb)
    return pool
