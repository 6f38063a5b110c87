"""``manage.py runjobexecutor``: a thin wrapper of :class:`~jobexec.executor.job_executor.JobExecutor`."""

from __future__ import annotations

import sys
from argparse import SUPPRESS, ArgumentParser, ArgumentTypeError
from collections.abc import Callable
from typing import Any

from django.conf import settings as django_settings
from django.core import checks
from django.core.management.base import CommandError
from django.db import DatabaseError
from django.utils import autoreload

from jobexec.backends import installed
from jobexec.conf import Settings, get_settings
from jobexec.exceptions import InvalidSettings, JobExecError
from jobexec.executor.job_executor import JobExecutor
from jobexec.executor.loops.solitary import Held, SolitaryAcquisition
from jobexec.executor.process.banner import banner
from jobexec.executor.process.child import Child
from jobexec.executor.process.control_pipe import supervisor
from jobexec.executor.process.health import Health, Reporter
from jobexec.executor.process.health_server import HealthServer, parse_port
from jobexec.executor.process.limits import (
    Limits,
    Reason,
    check_memory,
    parse_count,
    parse_duration,
    parse_size,
    reasons,
)
from jobexec.executor.process.preflight import (
    check_broker,
    check_engines,
    parse_processes,
    process_count,
    warn_of_connections,
)
from jobexec.executor.process.reload import SourceWatcher, source_files
from jobexec.executor.process.report import PROBES, Report
from jobexec.executor.process.shutdown import Shutdown, serve
from jobexec.executor.process.supervisor import Supervisor
from jobexec.executor.process.systemd import Notifier
from jobexec.executor.process.until_empty import UntilEmpty
from jobexec.management.logs import configure_logging
from jobexec.management.supervised import SupervisedCommand
from jobexec.runtime.connections import leave_connections

#: The options that replace a setting.
_SETTINGS = {"THREADS": "--threads", "QUEUE_SIZE": "--queue-size", "NODE_NAME": "--node"}


class Command(SupervisedCommand):
    help = "Execute jobs: acquisition loops, timers, recovery and a thread pool for each engine."
    requires_system_checks = [checks.Tags.database, "jobexec"]

    def add_arguments(self, parser: ArgumentParser) -> None:
        add = parser.add_argument
        add("--threads", type=int, help="Worker threads (setting THREADS).")
        add("--queue-size", type=int, help="Jobs that may wait for a thread in each process (setting QUEUE_SIZE).")
        text = "Executor processes, supervised and restarted if they die; auto: one for each processor."
        add("--processes", type=_typed(parse_processes), default=1, help=text)
        add("--engine", action="append", help="Serve only this engine, a database alias. Repeatable.")
        add("--category", action="append", help="Serve only this category. Repeatable.")
        add("--exclude-category", action="append", help="Serve all categories but this one. Repeatable.")
        add("--backend", action="append", help="Serve only the queues of this backend in TASKS. Repeatable.")
        add("--node", help="This node's name (setting NODE_NAME, else the host name).")
        add("--deployment-aware", action="store_true", default=None, help="Take only jobs of registered deployments.")
        add("--from-broker", action="store_true", help="Get jobs from the broker (setting DISPATCH), not by polling.")
        add("--max-jobs", type=_typed(parse_count), help="Restart a process after this many jobs.")
        add("--max-lifetime", type=_typed(parse_duration), help="... after this time: seconds, or ISO 8601 like PT6H.")
        add("--max-rss", type=_typed(parse_size), help="... when it uses this much memory, like 512M or 1.5G.")
        add("--no-restart", action="store_true", help="At one of these limits, exit with code 0 instead.")
        add("--health-port", type=_typed(parse_port), help="Serve /startup, /ready and /live on this port; 0: any.")
        add("--health-host", default="127.0.0.1", help="Address of --health-port; in a container 0.0.0.0 or ::.")
        add("--until-empty", action="store_true", help="Exit when no job is due, none runs and no retry waits.")
        add("--check", action="store_true", help="Validate settings, databases and migrations, and exit.")
        add("--reload", action="store_true", default=None, help="Restart when source files change; default DEBUG.")
        add("--solitary", type=_typed(Held.parse), help=SUPPRESS)
        add("--noreload", "--no-reload", action="store_false", dest="reload", help="Do not restart, even with DEBUG.")

    def handle(self, *args: Any, **options: Any) -> None:
        configure_logging(options["verbosity"], self.stderr)
        _check_restarts(options)
        try:
            settings = self._settings(options)
            if options["from_broker"]:
                check_broker(settings)
            check_engines(settings)
            options["processes"] = process_count(settings, options["processes"])
            check_memory(options["max_rss"])
            if supervisor() is None:  # it has warned for all its processes
                warn_of_connections(settings, options["processes"])
        except JobExecError as error:
            raise CommandError(str(error)) from error
        leave_connections()  # from now on this thread only waits
        if options["solitary"] is not None:
            _exit_with(self._solitary(settings, options["solitary"]))
            return
        if options["check"]:
            self.stdout.write(self.style.SUCCESS("The job executor can start."))
            return
        try:
            _exit_with(self._run(settings, options))
        except (JobExecError, DatabaseError, TimeoutError) as error:
            raise CommandError(str(error)) from error

    def _run(self, settings: Settings, options: dict[str, Any]) -> int:
        limits = Limits(options["max_jobs"], options["max_lifetime"], options["max_rss"])
        if supervisor() is None and (
            options["processes"] > 1 or options["reload"] or (limits and not options["no_restart"])
        ):
            return self._supervise(settings, options)
        return self._serve(settings, options, limits)

    def _command(self) -> list[str]:
        """The command line of this process; empty if it cannot be run again."""
        if not getattr(self, "_called_from_command_line", False):
            return []
        try:
            return autoreload.get_child_arguments()
        except RuntimeError:  # python -c
            return []

    def _solitary(self, settings: Settings, held: Held) -> int:
        """Execute one job that another process hands over, without the parts that a service has only once."""
        name = f"{settings.node_name}-solitary"
        shutdown, settings = Shutdown(), settings.replace(threads=1, engines=[held.using], node_name=name)
        shutdown.install()
        executor = JobExecutor(settings, held=held)
        executor.start()
        (acquisition,) = executor.engines[held.using].acquisitions.values()
        assert isinstance(acquisition, SolitaryAcquisition)
        return serve(executor, shutdown, lambda: acquisition.over and executor.idle, _say_nothing)

    def _settings(self, options: dict[str, Any]) -> Settings:
        settings = get_settings()
        try:
            return self._chosen(settings, options)
        except InvalidSettings as error:  # those of the project are valid: it is an option
            problem = "\n".join(error.problems) or str(error)
            for setting, option in _SETTINGS.items():
                problem = problem.replace(f"JOBEXEC['{setting}']", option)
            raise CommandError(problem, returncode=2) from error

    def _chosen(self, settings: Settings, options: dict[str, Any]) -> Settings:
        if options["backend"]:
            if any(options[name] for name in ("engine", "category", "exclude_category")):
                raise InvalidSettings("--backend stands for --engine and --category: do not give them as well.")
            options["engine"], options["category"] = _served_by(options["backend"])
        if excluded := options["exclude_category"]:
            if options["category"]:
                raise InvalidSettings("Expected either --category or --exclude-category, got both.")
            settings.replace(categories=excluded)  # raises for one that does not exist
            options["category"] = [name for name in settings.categories if name not in excluded]
        return settings.replace(
            threads=options["threads"],
            queue_size=options["queue_size"],
            engines=options["engine"],
            categories=options["category"],
            node_name=options["node"],
            deployment_aware=options["deployment_aware"],
        )

    def _serve(self, settings: Settings, options: dict[str, Any], limits: Limits) -> int:
        shutdown = Shutdown()
        shutdown.install()
        executor = JobExecutor(settings, from_broker=options["from_broker"], command=self._command())
        health, above, notifier = Health(executor), supervisor(), Notifier.from_environment()
        server = None if above else self._health_server(options, health.report)
        listeners = [each.tell for each in (above, notifier) if each]
        reporter = Reporter(health, listeners, notifier.interval if notifier else 1.0)
        reporter.run_once()  # the supervisor must know that this process receives its orders before it holds any job
        reporter.start()
        self.keep_what_is_loaded()
        try:
            executor.start()
            health.begin(reporter.wake)
            return self._until_end(executor, shutdown, health, reasons(executor, limits), options)
        finally:
            reporter.stop(1.0)
            if server is not None:
                server.stop(1.0)

    def _until_end(
        self, executor: JobExecutor, shutdown: Shutdown, health: Health, why: list[Reason], options: dict[str, Any]
    ) -> int:
        say = self._sayer(options)
        for line in banner(executor):
            say(line)
        until_empty = UntilEmpty(executor) if options["until_empty"] else None
        ends: list[Callable[[], bool]] = [until_empty] if until_empty is not None else []
        if options["no_restart"]:
            why, limits = why[:1], why[1:]  # the executor's own wish for a new process stays
            ends += [lambda: any(reached() for reached in limits)]
        code = serve(executor, shutdown, lambda: any(end() for end in ends), say, health, why)
        if until_empty is not None and until_empty.reached:
            say(until_empty.report())
        return code

    def _supervise(self, settings: Settings, options: dict[str, Any]) -> int:
        shutdown = Shutdown()
        shutdown.install()
        arguments, count = autoreload.get_child_arguments(), options["processes"]
        names = [settings.node_name]
        if count > 1:
            names = [f"{settings.node_name}-{number}" for number in range(1, count + 1)]
        children = [Child(name, [*arguments, "--node", name], options["until_empty"]) for name in names]
        changed, say = SourceWatcher(source_files) if options["reload"] else None, self._sayer(options)
        if changed is not None:
            say("Watching source files; a change restarts everything (--noreload: off).")
        notifier = Notifier.from_environment()
        told = Supervisor(children, shutdown, changed, [notifier.tell] if notifier else [], say)
        server = self._health_server(options, told.report)
        try:
            return told.run()
        finally:
            if server is not None:
                server.stop(1.0)

    def _health_server(self, options: dict[str, Any], report: Callable[[], Report]) -> HealthServer | None:
        if options["health_port"] is None:
            return None
        server = HealthServer(options["health_host"], options["health_port"], report)
        server.start()
        self._sayer(options)(f"Health: {server.url} with {', '.join(f'/{probe}' for probe in PROBES)}")
        return server

    def _sayer(self, options: dict[str, Any]) -> Callable[[str], object]:
        return self._say if options["verbosity"] else _say_nothing

    def _say(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()  # a reader of a pipe gets the line immediately


def _served_by(backends: list[str]) -> tuple[list[str], list[str] | None]:
    if not installed():
        raise InvalidSettings("--backend needs django.tasks: Django 6.0, or jobexec with the extra 'backport'.")
    from jobexec.backends.lookup import served_by  # it cannot be imported without

    return served_by(backends)


def _check_restarts(options: dict[str, Any]) -> None:
    if options["reload"] is None:
        ends = options["until_empty"] or options["no_restart"]
        options["reload"] = django_settings.DEBUG and not ends
    if options["no_restart"] and (options["processes"] != 1 or options["reload"]):
        raise CommandError("--no-restart: expected one process, without --processes and --reload.", returncode=2)


def _say_nothing(line: str) -> None:
    """Discard output (``-v 0``)."""


def _typed(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """An argparse type that keeps the error message of ``parse``."""

    def parsed(text: str) -> Any:
        try:
            return parse(text)
        except ValueError as error:
            raise ArgumentTypeError(str(error)) from error

    return parsed


def _exit_with(code: int) -> None:
    """Exit if the code is not 0; ``call_command()`` returns to a caller for whom all went well."""
    if code:
        sys.exit(code)
