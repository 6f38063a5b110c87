"""``manage.py rungrpcgateway``: a thin wrapper of :class:`~jobexec.gateways.grpc.gateway.GrpcGateway`."""

from __future__ import annotations

import os
import socket
import sys
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from django.conf import settings as django_settings
from django.core import checks
from django.core.management.base import CommandError
from django.db import DatabaseError, connections
from django.utils import autoreload

from jobexec.conf import get_settings, raw_settings, reset
from jobexec.exceptions import JobExecError
from jobexec.executor.process.child import Child
from jobexec.executor.process.control_pipe import DRAIN, Upward, supervisor
from jobexec.executor.process.preflight import AUTO, parse_processes, usable_cores
from jobexec.executor.process.report import Report
from jobexec.executor.process.shutdown import EXIT_LEFT, Shutdown
from jobexec.executor.process.supervisor import Supervisor
from jobexec.gateways import long_polling, worker_registry
from jobexec.gateways.actuator import serve_metrics
from jobexec.management.logs import configure_logging
from jobexec.management.supervised import SupervisedCommand
from jobexec.operations.sql.locks import is_single_writer
from jobexec.runtime.connections import leave_connections

_TURN = 0.5
_OPTIONS = "address", "port", "share_port", "threads", "max_streams", "tls_cert", "tls_key", "client_ca", "grace"

_LAST_PORT = 65535  # gRPC truncates larger numbers and listens on another port


class Command(SupervisedCommand):
    help = "Let external workers fetch and finish jobs over gRPC, with existing Zeebe clients."
    requires_system_checks = [checks.Tags.database, "jobexec"]

    def add_arguments(self, parser: ArgumentParser) -> None:
        add, number = parser.add_argument, _at_least(1)
        add("--address", default="127.0.0.1", help="Where to listen; 0.0.0.0 or :: for other machines.")
        add("--port", type=_at_least(0, _LAST_PORT), default=26500, help="Default 26500; 0: a free port.")
        add("--share-port", action="store_true", help="Let other gateways on this machine use the same port.")
        text = "Gateway processes that share the port, restarted if they die; auto: one for each processor."
        add("--processes", type=_processes, default=1, help=text)
        add("--database", help="The engine to serve, a database alias (setting GATEWAY_DATABASE).")
        add("--threads", type=number, default=8, help="Threads to fetch jobs, and as many to finish them; default 8.")
        add("--max-streams", type=number, default=5000, help="Calls that may wait for jobs at once; default 5000.")
        add("--tls-cert", type=Path, help="A file with the certificate chain, PEM.")
        add("--tls-key", type=Path, help="A file with its private key, PEM.")
        add("--client-ca", type=Path, help="Clients must show a certificate that was signed by one in this file.")
        add(
            "--metrics-port",
            type=_at_least(0, _LAST_PORT),
            help="Serve /metrics and /actuator/jobstreams on this port, and further processes on those after it; 0: a "
            "free port.",
        )
        add("--metrics-host", default="127.0.0.1", help="Address of --metrics-port, which has no authentication.")
        add("--grace", type=_at_least(0), default=10, help="Seconds for running calls when it stops; default 10.")

    def handle(self, *args: Any, **options: Any) -> None:
        configure_logging(options["verbosity"], self.stderr)
        try:
            code = self._run(options)
        except (JobExecError, DatabaseError) as error:
            raise CommandError(str(error)) from error
        if code:
            sys.exit(code)

    def _run(self, options: dict[str, Any]) -> int:
        try:
            from jobexec.gateways.grpc import banner, gateway
            from jobexec.gateways.grpc import options as told
        except ImportError as error:
            if (error.name or "").partition(".")[0] not in ("grpc", "grpc_health", "grpc_reflection", "google"):
                raise
            raise CommandError(f"{error}: install jobexec with the extra 'grpc'.") from error
        using = self._database(options["database"])
        connections[using].ensure_connection()
        processes = options["processes"]
        if processes == AUTO:
            processes = 1 if is_single_writer(using) else usable_cores()
        leave_connections()  # from now on this thread only waits
        if processes > 1 and supervisor() is None:
            return self._supervise(processes, options)
        server = gateway.GrpcGateway(told.Options(using=using, **{name: options[name] for name in _OPTIONS}))
        shutdown = Shutdown(_leave)
        shutdown.install()
        self.keep_what_is_loaded()
        server.start()
        worker_registry.start(using)
        say = self._say if options["verbosity"] else _say_nothing
        if options["metrics_port"] is not None:
            say(f"Metrics: {serve_metrics(options['metrics_port'], options['metrics_host']).url}/metrics")
        for line in banner.banner(server):
            say(line)
        return self._until_end(server, shutdown, say)

    def _supervise(self, processes: int, options: dict[str, Any]) -> int:
        shutdown = Shutdown()
        shutdown.install()
        with _reserved(options["address"], options["port"]) as port:
            arguments = [*autoreload.get_child_arguments(), "--share-port", "--port", str(port)]
            children = []
            for number in range(processes):
                metrics = ["--metrics-port", str(options["metrics_port"] + number)] if options["metrics_port"] else []
                children.append(Child(f"gateway-{number + 1}", [*arguments, *metrics], kind="Gateway process"))
            return Supervisor(children, shutdown).run()

    def _database(self, chosen: str | None) -> str:
        """The alias of the engine. The option replaces the setting, because other modules read the setting."""
        if chosen:
            django_settings.JOBEXEC = {**raw_settings(), "GATEWAY_DATABASE": chosen}
            reset()
        settings = get_settings()
        return settings.engine(settings.gateway_database).alias

    def _until_end(self, server: Any, shutdown: Shutdown, say: Callable[[str], object]) -> int:
        above = supervisor()
        while not shutdown.wait(_TURN):
            if not server.alive:
                raise CommandError("The gateway has failed; the log says why.")
            if above is not None and _is_to_end(above):
                break
        if above is not None:
            above.tell(Report(ready=["draining"], draining=True, status="Draining"))
        say(f"Draining. Open calls: {server.running}.")
        server.stop()
        worker_registry.stop()
        long_polling.close_all()
        say("Drained.")
        shutdown.finish(0)
        return 0

    def _say(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()  # a reader of a pipe gets the line immediately


def _say_nothing(line: str) -> None:
    """Discard output (``-v 0``)."""


def _leave() -> None:
    """Leave without waiting for calls; jobs that workers hold are not affected."""
    with suppress(OSError):
        os.write(2, b"Leaving immediately; jobs that were being sent wait for their deadline.\n")
    os._exit(EXIT_LEFT)


def _is_to_end(above: Upward) -> bool:
    """Report to the supervisor; return whether it wants this process to end, or is gone."""
    above.tell(Report(status="Serving"))
    return above.gone or above.order() == DRAIN


@contextmanager
def _reserved(address: str, port: int) -> Iterator[int]:
    """Keep a port, or a free one for 0, for processes that share it, also while none of them listens."""
    if not hasattr(socket, "SO_REUSEPORT"):
        raise CommandError("--processes: processes cannot share a port on this system.")
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        try:
            held.bind((address, port))
        except OSError as error:
            raise CommandError(f"{address}:{port} cannot be used: {error.strerror}.") from error
        yield held.getsockname()[1]


def _processes(text: str) -> int | str:
    """An argparse type that keeps the error message."""
    try:
        return parse_processes(text)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from error


def _at_least(least: int, most: int | None = None) -> Callable[[str], int]:
    """An argparse type whose error message names the expected range."""
    range_ = f"of at least {least}" if most is None else f"from {least} to {most}"

    def parsed(text: str) -> int:
        if not text.isdecimal() or int(text) < least or (most is not None and int(text) > most):
            raise ArgumentTypeError(f"expected a whole number {range_}, got {text!r}")
        return int(text)

    return parsed
