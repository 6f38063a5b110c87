"""``manage.py runjobexecutor``: a thin door to :class:`~jobexec.executor.job_executor.JobExecutor`."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from typing import Any

from django.core import checks
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError
from django.utils import autoreload

from jobexec.conf import Settings, get_settings
from jobexec.exceptions import JobExecError
from jobexec.executor.banner import banner
from jobexec.executor.connections import leave_connections
from jobexec.executor.job_executor import JobExecutor
from jobexec.executor.preflight import check_engines, check_processes, warn_of_connections
from jobexec.executor.progress import UntilEmpty
from jobexec.executor.shutdown import Shutdown, serve, supervisor
from jobexec.executor.supervisor import SourceWatcher, Supervisor
from jobexec.management.logs import configure_logging


class Command(BaseCommand):
    help = "Execute jobs: acquisition loops, timers, recovery and a thread pool for each engine."
    requires_system_checks = [checks.Tags.database, "jobexec"]

    def add_arguments(self, parser: ArgumentParser) -> None:
        add = parser.add_argument
        add("--threads", type=int, help="Worker threads (setting THREADS).")
        add("--queue-size", type=int, help="Jobs that may wait for a thread here (setting QUEUE_SIZE).")
        add("--processes", type=int, default=1, help="Executor processes, supervised and restarted if they die.")
        add("--engine", action="append", help="Serve only this engine, a database alias. Repeatable.")
        add("--category", action="append", help="Serve only this category. Repeatable.")
        add("--node", help="This node's name (setting NODE_NAME, else the host name).")
        add("--deployment-aware", action="store_true", default=None, help="Take only jobs of registered deployments.")
        add("--until-empty", action="store_true", help="End when nothing is due, nothing runs and no retry waits.")
        add("--check", action="store_true", help="Validate settings, databases and migrations, and exit.")
        add("--reload", action="store_true", help="Restart when source files change; for development.")

    def handle(self, *args: Any, **options: Any) -> None:
        configure_logging(options["verbosity"], self.stderr)
        try:
            settings = self._settings(options)
            check_engines(settings)
            check_processes(settings, options["processes"])
            if supervisor() is None:  # which has said it for all
                warn_of_connections(settings, options["processes"])
        except JobExecError as error:
            raise CommandError(str(error)) from error
        leave_connections()  # this thread only waits from now on
        if options["check"]:
            self.stdout.write(self.style.SUCCESS("The job executor can start."))
            return
        if supervisor() is None and (options["processes"] > 1 or options["reload"]):
            sys.exit(self._supervise(settings, options))
        sys.exit(self._serve(settings, options))

    def _settings(self, options: dict[str, Any]) -> Settings:
        return get_settings().replace(
            threads=options["threads"],
            queue_size=options["queue_size"],
            engines=options["engine"],
            categories=options["category"],
            node_name=options["node"],
            deployment_aware=options["deployment_aware"],
        )

    def _serve(self, settings: Settings, options: dict[str, Any]) -> int:
        shutdown = Shutdown()
        shutdown.install()
        executor = JobExecutor(settings)
        try:
            executor.start()
        except (JobExecError, DatabaseError, TimeoutError) as error:
            raise CommandError(str(error)) from error
        say = self._say if options["verbosity"] else _say_nothing
        for line in banner(executor):
            say(line)
        until_empty = UntilEmpty(executor) if options["until_empty"] else None
        code = serve(executor, shutdown, until_empty, say)
        if until_empty is not None and until_empty.reached:
            say(until_empty.report())
        return code

    def _say(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()  # who reads a pipe wants to know now

    def _supervise(self, settings: Settings, options: dict[str, Any]) -> int:
        shutdown = Shutdown(leave=lambda: None)
        shutdown.install()
        arguments, count = autoreload.get_child_arguments(), options["processes"]
        names = [f"{settings.node_name}-{number}" for number in range(1, count + 1)] if count > 1 else None
        commands = [[*arguments, "--node", name] for name in names] if names else [arguments]
        changed = SourceWatcher(autoreload.iter_all_python_module_files) if options["reload"] else None
        return Supervisor(commands, shutdown, changed).run()


def _say_nothing(line: str) -> None:
    """What -v 0 asks for."""
