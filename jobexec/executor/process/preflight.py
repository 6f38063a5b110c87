"""Checks before an executor starts; each refusal says what to do."""

from __future__ import annotations

import logging
import os
import re
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from django.db import DatabaseError, connections
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from jobexec.broker.connection import kombu
from jobexec.conf import Settings
from jobexec.exceptions import NodeRefused
from jobexec.operations.sql.dialect import dialect
from jobexec.operations.sql.locks import is_single_writer

from ...runtime.connection_count import connections_by_alias

logger = logging.getLogger("jobexec.executor")

#: The value of --processes for one process for each processor.
AUTO = "auto"

_NAMED = 3


def check_engines(settings: Settings) -> None:
    """Check that every engine's database answers and has all migrations. Raises NodeRefused."""
    for alias in settings.engines:
        check_migrations(alias)


def check_migrations(alias: str, app: str = "jobexec") -> None:
    """Check that a database answers and has all migrations of an app. Raises NodeRefused."""
    try:
        if _are_recorded(alias, app):
            return
        executor = MigrationExecutor(connections[alias])
        plan = executor.migration_plan([key for key in executor.loader.graph.leaf_nodes() if key[0] == app])
    except DatabaseError as error:
        raise NodeRefused(f"The database {alias!r} does not answer: {error}") from error
    if plan:
        missing = ", ".join(migration.name for migration, _ in plan[:_NAMED])
        more = f" and {len(plan) - _NAMED} more" if len(plan) > _NAMED else ""
        raise NodeRefused(
            f"The database {alias!r} lacks migrations of {app} ({missing}{more}): "
            f"run 'manage.py migrate {app} --database {alias}'."
        )


def _are_recorded(alias: str, app: str) -> bool:
    """Whether each migration of an app of ours is recorded as applied; then Django need not load those of all apps.

    Only Django's graph knows of migrations that stand for others, and of apps without migrations: False for these.
    """
    name, _ = MigrationLoader.migrations_module(app)
    if name is None:
        return False
    applied = MigrationRecorder(connections[alias]).applied_migrations()
    files = iter_modules(import_module(name).__path__)
    return all(file.ispkg or file.name[0] in "_~" or (app, file.name) in applied for file in files)


def process_count(settings: Settings, processes: int | str) -> int:
    """The number of processes that --processes asks for. Raises NodeRefused if it does not fit the databases.

    ``"auto"`` is one for each processor that this process may use, and one if only one executor may serve a database.
    """
    single = [alias for alias in settings.engines if is_single_writer(alias)]
    if processes == AUTO:
        return 1 if single else usable_cores()
    if not isinstance(processes, int) or processes < 1:
        raise NodeRefused(f"--processes: expected a number of at least 1, or auto, got {processes!r}.")
    if processes > 1 and single:
        raise NodeRefused(
            f"--processes {processes}: {single[0]!r} is on {connections[single[0]].display_name}, "
            "which only one executor at a time may serve."
        )
    return processes


def parse_processes(text: str) -> int | str:
    """Parse a number of processes, or ``auto``. Raises ValueError."""
    if text == AUTO:
        return AUTO
    if not re.fullmatch(r"\d{1,9}", text) or not int(text):
        raise ValueError(f"expected a number of processes, at least 1, or auto, got {text!r}")
    return int(text)


def usable_cores(cgroup: Path = Path("/sys/fs/cgroup")) -> int:
    """How many processors this process may use: by its affinity, and by the quota of its container (cgroup v1, v2)."""
    found = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    for names in (("cpu.max",), ("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us")):
        try:
            quota, period = " ".join((cgroup / name).read_text() for name in names).split()
        except (OSError, ValueError):
            continue
        if quota.isdigit() and int(period):  # without a quota: "max", or -1
            found = min(found, int(quota) // int(period))
    return max(1, found)


def check_broker(settings: Settings) -> None:
    """Check --from-broker against the settings, without connecting to the broker. Raises JobExecError."""
    if settings.dispatch != "broker":
        raise NodeRefused(
            "--from-broker: jobs are not announced on a broker, because JOBEXEC['DISPATCH'] is 'database'; "
            "set it to 'broker', also in every process that enqueues."
        )
    kombu()
    for engine in settings.engines.values():
        if engine.acquisitions:
            names = ", ".join(each.name for each in engine.acquisitions)
            raise NodeRefused(
                f"--from-broker: the engine {engine.alias!r} names ACQUISITIONS ({names}), which divide what is read "
                "from the table; start a process for each with --category instead."
            )
        if engine.priority_range != (None, None):
            raise NodeRefused(
                f"--from-broker: the engine {engine.alias!r} has a PRIORITY_RANGE, by which messages cannot be divided "
                "among nodes; divide the jobs by category."
            )


def warn_of_connections(settings: Settings, processes: int) -> None:
    """Log the warnings of :func:`connection_warnings`. Raises NodeRefused."""
    for warning in connection_warnings(settings, processes):
        logger.warning(warning)


def connection_warnings(settings: Settings, processes: int) -> Iterator[str]:
    """A sentence for each database server that accepts fewer connections than ``processes`` processes may open.

    A server behind a pooler is left out: the pooler has its own limit. Raises NodeRefused.
    """
    wanted: Counter[tuple[str, str, str]] = Counter()
    alias_of = {}
    for alias, count in connections_by_alias(settings).items():
        connection = connections[alias]
        address = connection.settings_dict
        server = (connection.vendor, str(address["HOST"]), str(address["PORT"]))
        wanted[server] += count
        alias_of[server] = alias
    for server, count in wanted.items():
        capacity = _capacity(alias_of[server])
        if capacity is not None and count * processes > capacity:
            yield (
                f"The database server of {alias_of[server]!r} accepts {capacity} connections, but "
                f"{_processes(processes)} may open {count * processes}, and other clients need some too. Use fewer "
                "threads, a connection pool or PgBouncer, or raise the server's max_connections."
            )


def _processes(count: int) -> str:
    return "this executor" if count == 1 else f"{count} executor processes"


def _capacity(alias: str) -> int | None:
    """How many connections the alias's server accepts; None if it is unknown, or a pooler is in front of it."""
    connection = connections[alias]
    statement = dialect(alias).capacity
    if statement is None:
        return None
    try:
        with connection.cursor() as cursor:
            cursor.execute(statement)
            (capacity,) = cursor.fetchone()
        with connection.wrap_database_errors:
            pooler = dialect(alias).is_behind_pooler(connection.connection)
        return None if pooler else int(capacity)
    except DatabaseError as error:
        raise NodeRefused(f"The database {alias!r} does not answer: {error}") from error
