"""A process of the case ``external``: a gateway, or a worker with some threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.conf import settings as django_settings

from jobexec.gateways import long_polling, worker_registry
from jobexec.runtime.threads import spawn

from ..measure import BenchError
from ..noop import wait_for
from ..sandbox import build_settings, overridden
from .external_doors import BATCH, opened
from .line import Line

_FOREVER = 3600.0
_PAUSE = 0.01  # of a worker that has found nothing
_PATIENCE = 10.0


def serve(line: Line, order: dict[str, Any]) -> None:
    """Say that we are ready, work from ``go`` to ``stop``, report."""
    settings = build_settings(order["alias"], **order["overrides"])
    with overridden(settings):
        if order["part"] == "worker":
            _work(line, order)
        else:
            with _SERVERS[order["part"]](order) as port:
                line.send(ready=True, port=port)
                line.receive(_FOREVER)  # go
                before = time.process_time()
                line.receive(_FOREVER)  # stop
                line.send(cpu=time.process_time() - before)


@contextmanager
def _rest(order: dict[str, Any]) -> Iterator[int]:
    """uvicorn with the application that serves the REST gateways alone, on a free port."""
    import uvicorn

    from jobexec.gateways.rest.asgi import application

    holder: Any = django_settings
    holder.DEBUG = False
    # Not with a socket of our own: asyncio would leave Nagle's algorithm on, which costs 40 ms an answer.
    address: dict[str, Any] = {"host": "127.0.0.1", "port": 0}
    server = uvicorn.Server(
        uvicorn.Config(application, **address, log_level="warning", access_log=False, lifespan="off")
    )
    thread = spawn("jobbench-uvicorn", server.run)
    wait_for(lambda: server.started, "uvicorn starts")
    try:
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(_PATIENCE)
        _leave()


@contextmanager
def _grpc(order: dict[str, Any]) -> Iterator[int]:
    """What ``manage.py rungrpcgateway`` runs, on a free port."""
    from jobexec.gateways.grpc.gateway import GrpcGateway
    from jobexec.gateways.grpc.options import Options

    server = GrpcGateway(Options(using=order["alias"], port=0, grace=1.0))
    server.start()
    try:
        yield server.port
    finally:
        server.stop()
        _leave()


def _leave() -> None:
    """What a gateway does last."""
    worker_registry.stop()
    long_polling.close_all()


_SERVERS: dict[str, Callable[[dict[str, Any]], Any]] = {"rest": _rest, "grpc": _grpc}


def _work(line: Line, order: dict[str, Any]) -> None:
    workers = [_Worker(order, number) for number in range(order["threads"])]
    line.send(ready=True)
    line.receive(_FOREVER)  # go
    before = time.process_time()
    threads = [spawn(f"jobbench-worker-{number}", worker) for number, worker in enumerate(workers)]
    try:
        line.tell_until_called(lambda: sum(len(worker.done) for worker in workers))
    finally:
        for worker in workers:
            worker.stopping.set()
    for thread in threads:
        thread.join(_PATIENCE)
    error = next((worker.error for worker in workers if worker.error), None)
    if error is not None:
        raise BenchError(f"A worker has failed: {error}") from error
    line.send(
        ran=[key for worker in workers for key in worker.done],
        ended=max(worker.ended for worker in workers),
        cpu=time.process_time() - before,
    )


class _Worker:
    """Fetches a page of jobs and hands them in one by one, until there is an end."""

    def __init__(self, order: dict[str, Any], number: int) -> None:
        self._order, self._name = order, f"jobbench-{order['name']}-{number}"
        self.stopping = threading.Event()
        self.done: list[int] = []
        #: When the last job was handed in, by the monotonic clock, which all processes share.
        self.ended = 0.0
        self.error: Exception | None = None

    def __call__(self) -> None:
        try:
            with opened(self._order, self._name) as door:
                while not self.stopping.is_set():
                    keys = door.activate(BATCH)
                    for key in keys:
                        door.complete(key)
                        self.done.append(key)
                        self.ended = time.monotonic()
                    if not keys:
                        self.stopping.wait(_PAUSE)
        except Exception as error:
            self.error = error
