"""What must be true before an executor starts; each refusal says what to do."""

from __future__ import annotations

from django.db import DatabaseError, connections
from django.db.migrations.executor import MigrationExecutor

from jobexec.conf import Settings
from jobexec.exceptions import NodeRefused
from jobexec.operations.locking import is_single_writer


def check_engines(settings: Settings) -> None:
    """Every engine's database answers and has all migrations. Raises NodeRefused."""
    for alias in settings.engines:
        try:
            executor = MigrationExecutor(connections[alias])
            plan = executor.migration_plan([key for key in executor.loader.graph.leaf_nodes() if key[0] == "jobexec"])
        except DatabaseError as error:
            raise NodeRefused(f"The database {alias!r} does not answer: {error}") from error
        if plan:
            missing = ", ".join(migration.name for migration, _ in plan)
            raise NodeRefused(
                f"The database {alias!r} lacks migrations of jobexec ({missing}): "
                f"run 'manage.py migrate jobexec --database {alias}'."
            )


def check_processes(settings: Settings, processes: int) -> None:
    """--processes fits the databases. Raises NodeRefused."""
    if processes < 1:
        raise NodeRefused(f"--processes: expected a number of at least 1, got {processes}.")
    single = [alias for alias in settings.engines if is_single_writer(alias)]
    if processes > 1 and single:
        raise NodeRefused(f"--processes {processes}: {single[0]!r} is SQLite, which one executor at a time may serve.")
