"""System checks of processes that read the database: ``manage.py check --database default``, and before ``migrate``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.db import DatabaseError, connections, router

from jobexec import conf

from .definition import InvalidProcess
from .models import ProcessDefinition
from .operations.deploy import files_of_apps, is_deployed
from .operations.verify import long_row, unknown_names
from .store import definitions

_COLUMNS = ("tenant_id", "key", "version", "pk")


def register_checks() -> None:
    """Register the checks with Django. May be called more than once."""
    register(check_definitions, Tags.database)
    register(check_steps, Tags.database)
    register(check_files, Tags.database)


def check_definitions(databases: Sequence[str] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """W019: everything that the latest versions of deployed processes name is registered here."""
    return [
        Warning(
            f"The process {key!r} (version {version}, database {using!r}) cannot run here: {problem}",
            hint="Register it in a module that is imported when Django starts, such as jobs.py of an app.",
            id="jobexec.W019",
        )
        for using in _with_tables(databases)
        for key, version, id in _latest(using)
        for problem in unknown_names(definitions.process(using, id))
    ]


def check_steps(databases: Sequence[str] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """W022: no step of the latest versions runs many service tasks while their instance is locked."""
    return [
        Warning(
            f"The process {key!r} (version {version}, database {using!r}) runs the service tasks {', '.join(row)} in "
            "one step. Its instance is locked from the first one to the commit.",
            hint='Begin some of them with jobs of their own: asyncBefore, or jobexec:transaction="outside".',
            id="jobexec.W022",
        )
        for using in _with_tables(databases)
        for key, version, id in _latest(using)
        if (row := long_row(definitions.process(using, id)))
    ]


def check_files(databases: Sequence[str] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """E024 and W020: the files in processes of all apps can be read, and are deployed as they are."""
    found: list[CheckMessage] = []
    for using in _with_tables(databases):
        if using != router.db_for_write(ProcessDefinition):
            continue
        for file in files_of_apps():
            try:
                if not is_deployed(using, file):
                    told = f"{file} is not deployed as it is now (database {using!r})."
                    found.append(Warning(told, hint="Run manage.py processes deploy.", id="jobexec.W020"))
            except InvalidProcess as error:
                found.append(Error(f"{file} cannot be deployed: {error}", id="jobexec.E024"))
            except ImportError as error:
                hint = "Install jobexec with the extra 'bpmn'."
                return [*found, Error(f"{file} cannot be read: {error}", hint=hint, id="jobexec.E024")]
    return found


def _with_tables(databases: Sequence[str] | None) -> Iterator[str]:
    """Those of the databases that are migrated: ``migrate`` runs the checks first."""
    if conf.problems(conf.raw_settings()):
        return  # reported by jobexec's own checks
    table = ProcessDefinition._meta.db_table
    for using in databases or ():
        if not router.allow_migrate_model(using, ProcessDefinition):
            continue
        with suppress(DatabaseError):  # it does not answer: whoever needs it says so
            with connections[using].cursor() as cursor:
                tables = connections[using].introspection.table_names(cursor)
            if table in tables:
                yield using


def _latest(using: str) -> list[tuple[str, int | None, str]]:
    """Key, version and id of the latest version of each key of each tenant.

    No other columns: a release may add some, and ``migrate`` runs the checks before they are there.
    """
    rows = ProcessDefinition.objects.using(using).filter(version__isnull=False).order_by("version")
    found = {(tenant, key): (key, version, id) for tenant, key, version, id in rows.values_list(*_COLUMNS)}
    return [found[each] for each in sorted(found)]
