"""Databases for this process, copied from one that is migrated once per run."""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.conf import settings
from django.db import connections

from tests.support.suite import databases, run


def create(alias: str) -> None:
    """Create a database for this process and use it under `alias`."""
    connection = connections[alias]
    creation = connection.creation
    if connection.vendor == "mysql" and not shutil.which("mysqldump"):
        # Django copies with mysqldump. Without it, each process migrates.
        settings.DATABASES[alias]["TEST"]["NAME"] = f"{run.database()}_{os.getpid()}"
        creation.create_test_db(verbosity=0)
        return
    with _one_process(alias) as migrated:
        if migrated.exists():
            _use(alias, creation._get_test_db_name())
        else:
            creation.create_test_db(verbosity=0)
            connection.close()  # PostgreSQL does not copy a database that is in use
            migrated.touch()
    suffix = str(os.getpid())
    creation.clone_test_db(suffix, verbosity=0)
    _use(alias, creation.get_test_db_clone_settings(suffix)["NAME"])


def drop(alias: str) -> None:
    """Drop this process's database if it would outlive the run."""
    connections[alias].close()
    for database in databases.covered.values():
        if database.alias == alias and database.drop:
            database.drop(connections[alias].settings_dict["NAME"])


def drop_templates() -> None:
    """Drop the run's migrated databases that would outlive it; called by the process that started it, at its end."""
    for database in databases.covered.values():
        if database.drop and _migrated(database.alias).exists():
            database.drop(run.database())


def _use(alias: str, name: str) -> None:
    settings.DATABASES[alias]["NAME"] = connections[alias].settings_dict["NAME"] = name


@contextmanager
def _one_process(alias: str) -> Iterator[Path]:
    """Hold the run's lock for this alias; the yielded file exists once its database is migrated."""
    with (run.folder() / f"{alias}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield _migrated(alias)


def _migrated(alias: str) -> Path:
    return run.folder() / f"{alias}.migrated"
