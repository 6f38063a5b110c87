"""What the cases of processes share: their models, and the removal of their rows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from typing import Any
from uuid import UUID

from django.apps import apps

from jobexec import clock
from jobexec.models import JOB_TABLES, Job, JobDefinition, JobLog
from jobexec.operations.sql.delete import delete_rows

from . import ours
from .bulk import multiply
from .measure import BenchError, Plan, Sample
from .noop import CATEGORY, HANDLER, Ledger
from .sandbox import remove_rows, tidy

#: The key of the definitions that are measured, and of those whose instances fill the tables.
KEY = "jobbench"
CROWD = "jobbench-crowd"
#: The beginning of the names of elements at which tokens wait for ever.
_WAITS = "w"
#: One of the latter, which has many activities, and their definition.
CROWD_INSTANCE, CROWD_DEFINITION = UUID(int=2**127), f"{CROWD}:1"


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
    instances = models.ProcessInstance.objects.using(alias).filter(definition_key=KEY)
    delete_rows(models.Variable.objects.using(alias).filter(root_id__in=list(instances.values_list("pk", flat=True))))
    _remove_rows_of(KEY, alias)
    definitions.forget()


def _remove_rows_of(key: str, alias: str) -> None:
    from jobexec.processes import models

    of_key = {"definition_id__startswith": f"{key}:"}
    for table in (models.Execution, models.ActivityInstance, models.EventSubscription, models.ProcessInstance):
        delete_rows(table.objects.using(alias).filter(**of_key))
    delete_rows(models.ProcessDefinition.objects.using(alias).filter(key=key))


def crowd(alias: str, waiting: int, ended: int, activities: int = 0) -> None:
    """Fill the tables with instances that wait, and others that have ended after one activity.

    ``activities``: one more has ended, :data:`CROWD_INSTANCE`, after as many activities.
    """
    from jobexec.processes.definition.as_json import to_json
    from jobexec.processes.models import ActivityInstance, Execution, ProcessDefinition, ProcessInstance

    now = clock.now(alias)
    begun, of = now - timedelta(days=1), {"definition_id": CROWD_DEFINITION}
    process = replace(chain_of_tasks(1, before=True), key=CROWD)
    model = json.dumps(to_json(process))
    ProcessDefinition(id=CROWD_DEFINITION, key=CROWD, version=1, model=model, deploy_time=begun).save(using=alias)
    first, instance = UUID(int=0), {"definition_key": CROWD, "start_time": begun, **of}
    done = {"element_id": "s0", "kind": "serviceTask", "start_time": begun, "end_time": now, "state": "completed", **of}

    def rows(row: Any, count: int, **more: Any) -> None:
        if count:
            row.save(using=alias, force_insert=True)
            multiply(row, count, **more)

    rows(ProcessInstance(id=first, root_id=first, **instance), waiting, distinct=["root_id"])
    token = {"root_id": first, "instance_id": first, "parent_id": first, "element_id": "s0", "state": "before", **of}
    rows(Execution(id=first, **token), waiting, distinct=["root_id", "instance_id", "parent_id"])
    over = {"state": "completed", "end_time": now, "end_element": "end", **instance}
    last = UUID(int=2**126)
    rows(ProcessInstance(id=last, root_id=last, **over), ended, distinct=["root_id"], first=waiting + 1)
    rows(ActivityInstance(id=last, instance_id=last, **done), ended, distinct=["instance_id"], first=waiting + 1)
    if activities:
        ProcessInstance(id=CROWD_INSTANCE, root_id=CROWD_INSTANCE, **over).save(using=alias, force_insert=True)
        rows(
            ActivityInstance(id=CROWD_INSTANCE, instance_id=CROWD_INSTANCE, **done),
            activities,
            later="start_time",
            first=waiting + ended + 2,
        )
    tidy(alias, ProcessInstance, Execution, ActivityInstance)


def remove_crowd(alias: str) -> None:
    """Delete what :func:`crowd` has made."""
    _remove_rows_of(CROWD, alias)


def chain_of_tasks(steps: int, *, before: bool, open_tokens: int = 0) -> Any:
    """A process of no-op service tasks, one after the other; their jobs have the numbers from ``first`` on.

    ``before``: asynchronous ones. ``open_tokens`` wait for messages, also when all tasks are done.
    """
    from jobexec.processes.definition import Event, Flow, Kind, Node, Process, Trigger

    names = [f"s{number}" for number in range(steps)]
    begin = Node("begin", Kind.START_EVENT)
    end = Node("end", Kind.END_EVENT)
    waits = [
        Node(f"{_WAITS}{number}", Kind.RECEIVE_TASK, event=Event(Trigger.MESSAGE, name="jobbench"))
        for number in range(open_tokens)
    ]
    ways = [*pairwise(["begin", *names, "end"]), *(("begin", wait.id) for wait in waits)]
    nodes = (begin, *(_task(number, before=before) for number in range(steps)), *waits, end)
    return Process(KEY, nodes, tuple(Flow(f"{a}-{b}", a, b) for a, b in ways))


def fork_of_tasks(branches: int) -> Any:
    """A process of asynchronous no-op service tasks in parallel, which may run at the same time, and their join."""
    from jobexec.processes.definition import Flow, Kind, Node, Process

    tasks = [_task(number, before=True, exclusive=False) for number in range(branches)]
    fork, join = Node("fork", Kind.PARALLEL_GATEWAY), Node("join", Kind.PARALLEL_GATEWAY)
    ways = [("begin", "fork"), *((a, b) for task in tasks for a, b in (("fork", task.id), (task.id, "join")))]
    flows = tuple(Flow(f"{a}-{b}", a, b) for a, b in [*ways, ("join", "end")])
    return Process(KEY, (Node("begin", Kind.START_EVENT), fork, *tasks, join, Node("end", Kind.END_EVENT)), flows)


def _task(number: int, *, before: bool, exclusive: bool = True) -> Any:
    from jobexec.processes.definition import Expression, JobOptions, Kind, Node, Work

    return Node(
        f"s{number}",
        Kind.SERVICE_TASK,
        work=Work(handler=HANDLER, arguments={"args": [Expression(f"${{first + {number}}}")], "kwargs": {}}),
        jobs=JobOptions(before=before, exclusive=exclusive, category=CATEGORY),
    )


def started(alias: str, process: Any, first: int = 0) -> UUID:
    """The id of a new instance, which has 0.4 kB of variables."""
    from jobexec.processes.operations.flows import start_flow

    return start_flow(alias, process, {"first": first, "note": "x" * 400}).pk


def execute(plan: Plan, ledger: Ledger) -> Sample:
    """Let an executor do all tasks, and check that all instances have ended well, but for tokens that wait for ever."""
    from jobexec.processes.models import Execution, ProcessInstance

    tidy(plan.alias, *_tables())
    sample = ours.execute_all(plan.settings, plan.alias, ledger)
    left = Execution.objects.using(plan.alias).filter(definition_id__startswith=f"{KEY}:")
    waiting = left.filter(element_id__startswith=_WAITS)
    running = ProcessInstance.objects.using(plan.alias).filter(definition_key=KEY).exclude(state="completed")
    unfinished = left.exclude(element_id__startswith=_WAITS)
    if unfinished.exists() or running.exclude(pk__in=waiting.values("instance_id")).exists():
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
