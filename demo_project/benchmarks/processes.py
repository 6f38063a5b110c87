"""What the cases of processes share: their rows are removed after each run, and nothing of them may be left."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.apps import apps

from jobexec.models import JOB_TABLES, Job, JobDefinition, JobLog
from jobexec.operations.sql.delete import delete_rows

from . import ours
from .measure import BenchError, Plan, Sample
from .noop import Ledger
from .sandbox import remove_rows, tidy

#: The key of the definitions of the benchmark.
KEY = "jobbench"


def check_installed() -> None:
    """Raise BenchError if the project has no processes."""
    if not apps.is_installed("jobexec.processes"):
        raise BenchError("This case needs 'jobexec.processes' in INSTALLED_APPS.")


@contextmanager
def processes(alias: str) -> Iterator[None]:
    """Remove the instances of the benchmark, and their jobs, at the end."""
    try:
        yield
    finally:
        remove_rows(alias)
        _remove_instances(alias)


def _remove_instances(alias: str) -> None:
    from jobexec.processes import models
    from jobexec.processes.store import definitions

    # Jobs of steps have handlers of their own, which the sandbox does not know.
    for jobs in JOB_TABLES:
        delete_rows(jobs._base_manager.using(alias).filter(process_definition_id__startswith=f"{KEY}:"))
    for rows in (JobLog, JobDefinition):
        delete_rows(rows._base_manager.using(alias).filter(process_definition_key=KEY))
    of_key = {"definition_id__startswith": f"{KEY}:"}
    for table in (models.Execution, models.ActivityInstance, models.EventSubscription):
        delete_rows(table.objects.using(alias).filter(**of_key))
    instances = models.ProcessInstance.objects.using(alias).filter(definition_key=KEY)
    delete_rows(models.Variable.objects.using(alias).filter(root_id__in=list(instances.values_list("pk", flat=True))))
    delete_rows(instances)
    delete_rows(models.ProcessDefinition.objects.using(alias).filter(key=KEY))
    definitions.forget()


def execute(plan: Plan, ledger: Ledger) -> Sample:
    """Let an executor take the instances to their end, and check that all of them have ended well."""
    tables = _tables()
    tidy(plan.alias, *tables)
    sample = ours.execute_all(plan.settings, plan.alias, ledger)
    ended = tables[0]._base_manager.using(plan.alias).filter(definition_key=KEY)
    if ended.exclude(state="completed").exists():
        raise BenchError("Some process instances have not come to their end.")
    return sample


def lengths(jobs: int, steps: int) -> Iterator[tuple[int, int]]:
    """The first job of each instance, and how many it has: ``steps``, and the last one what remains."""
    for first in range(0, jobs, steps):
        yield first, min(steps, jobs - first)


def check_raw(alias: str, wanted: int) -> None:
    """Raise BenchError unless the raw SQL took each step of each instance once, and each instance has its token."""
    from jobexec.processes.models import ActivityInstance, Execution, ProcessInstance

    of_key = {"definition_id__startswith": f"{KEY}:"}
    done = ActivityInstance.objects.using(alias).filter(**of_key, kind="serviceTask", state="completed")
    found = list(done.values_list("instance_id", "element_id"))
    different = len(set(found))
    if not len(found) == different == wanted:
        raise BenchError(f"Raw SQL: {wanted} jobs, {len(found)} taken, {different} different ones.")
    instances = ProcessInstance.objects.using(alias).filter(definition_key=KEY).count()
    if Execution.objects.using(alias).filter(**of_key).count() != instances:
        raise BenchError("Raw SQL: not each instance has one token.")


def _tables() -> list[Any]:
    from jobexec.processes.models import ActivityInstance, Execution, ProcessInstance, Variable

    return [ProcessInstance, Execution, Variable, ActivityInstance, Job]
