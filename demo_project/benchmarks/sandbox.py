"""What keeps a benchmark from harming the project's own jobs, and they from disturbing it."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.apps import apps
from django.conf import settings as django_settings
from django.db import connections
from django.db.models import Model, QuerySet

from jobexec import conf
from jobexec.conf import Settings, get_settings
from jobexec.models import (
    JOB_TABLES,
    ExecutorNode,
    Incident,
    Job,
    JobDefinition,
    JobLog,
    NodeState,
    TaskResult,
    TimerJob,
)
from jobexec.operations.nodes.leases import is_gone_from_this_host
from jobexec.operations.sql.delete import delete_rows
from jobexec.operations.sql.server_time import synchronise_clock

from .bulk import remove_many
from .kinds import remove_bookings
from .measure import BenchError
from .noop import BACKLOG_HANDLER, CATEGORY, HANDLER_PREFIX

_OURS = {"category": CATEGORY, "handler_type__startswith": HANDLER_PREFIX}


def build_settings(alias: str, **overrides: Any) -> Settings:
    """The project's settings, limited to this engine and to the benchmark's category; see Settings.replace().

    No deployment: the benchmark neither registers one nor looks for the jobs of one. Raises InvalidSettings.
    """
    current = get_settings()
    current.engine(alias)
    source = dict(current.source) | {"CATEGORIES": [CATEGORY], "BATCH_CATEGORY": None, "DEPLOYMENT": None}
    with _jobexec(source):
        return get_settings().replace(
            engines=[alias],
            node_name=f"{CATEGORY}-{os.getpid()}",
            **{"deployment_aware": False, "priority_range": (None, None), **overrides},
        )


@contextmanager
def overridden(settings: Settings) -> Iterator[None]:
    """These settings are those of the process during the block."""
    with _jobexec(dict(settings.source)):
        yield


@contextmanager
def _jobexec(source: dict[str, Any]) -> Iterator[None]:
    before = conf.raw_settings()
    _set_jobexec(source)
    try:
        yield
    finally:
        _set_jobexec(before)


def _set_jobexec(source: Any) -> None:
    holder: Any = django_settings
    holder.JOBEXEC = source
    conf.reset()


@contextmanager
def sigterm_as_ctrl_c() -> Iterator[None]:
    """SIGTERM, too, ends the block by KeyboardInterrupt, so that nothing is left behind."""
    if threading.current_thread() is not threading.main_thread():  # only there Python handles signals
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def refuse_company(alias: str) -> None:
    """Raise BenchError while executors live on this engine or jobs of the project are due there."""
    now = synchronise_clock(alias)
    nodes = ExecutorNode.objects.using(alias).exclude(state=NodeState.DEAD).filter(lease_expiration_time__gt=now)
    alive = [node.name for node in nodes if not is_gone_from_this_host(node)]
    if alive:
        raise BenchError(
            f"Executors are alive on {alias!r}: {', '.join(alive)}. They would share the machine and the database "
            "with the benchmark. Stop them (a killed one counts until its lease ends), or give --force."
        )
    executable = Job.objects.using(alias).exclude(handler_type__startswith=HANDLER_PREFIX).count()
    due = TimerJob.objects.using(alias).filter(due_date__lte=now).count()
    if executable or due:
        raise BenchError(
            f"There are {executable} executable jobs and {due} due timers on {alias!r}. The benchmark would not run "
            "them, but they would be measured with it. Execute them first, or give --force."
        )


def remove_rows(alias: str) -> None:
    """Delete what a run has written; what lies in the tables for all runs stays, see :mod:`.backlog`."""
    for table in JOB_TABLES:
        delete_rows(_of_runs(table, alias))
    delete_rows(_of_runs(JobLog, alias))
    delete_rows(_of_runs(TaskResult, alias))
    delete_rows(JobDefinition.objects.using(alias).filter(pk__startswith=HANDLER_PREFIX))
    remove_bookings(alias)


def remove_everything(alias: str) -> None:
    """Delete whatever the benchmark has written, also what one that was killed left behind."""
    tables: list[type[Model]] = [*JOB_TABLES, JobLog, Incident]
    for table in tables:
        remove_many(table, alias, BACKLOG_HANDLER)
    remove_rows(alias)
    if apps.is_installed("jobexec.processes"):
        from .processes import remove_crowd  # it needs this module, and the models of processes

        remove_crowd(alias)


def _of_runs(table: type[Any], alias: str) -> QuerySet[Any]:
    rows: QuerySet[Any] = table._base_manager.using(alias).filter(**_OURS)
    return rows.exclude(handler_type=BACKLOG_HANDLER)


def jobs_left(alias: str) -> int:
    """How many jobs of a run are in any table."""
    return sum(_of_runs(table, alias).count() for table in JOB_TABLES)


def tidy(alias: str, *tables: type[Model]) -> None:
    """Leave tables, that of jobs by default, as autovacuum does: no run pays for the dead rows of the one before."""
    if connections[alias].vendor == "postgresql":
        with connections[alias].cursor() as cursor:
            for table in tables or [Job]:
                cursor.execute(f"VACUUM (ANALYZE) {table._meta.db_table}")
