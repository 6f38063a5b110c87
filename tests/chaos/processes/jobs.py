"""The handlers. What runs in a step writes a row in its transaction; what runs outside tells the journal."""

import os
import signal
from collections.abc import Callable
from functools import wraps
from typing import Any
from uuid import UUID

from django.db import connection

from jobexec import JobContext, job
from jobexec.processes import BpmnError, service_task
from jobexec.processes.engine.inputs import JobDone
from jobexec.processes.handlers import steps
from jobexec.processes.handlers.context import TaskContext
from tests.chaos import jobs

#: Jobs whose node is killed as soon as the step with their result is taken, before they are deleted: it is committed
#: then if it was taken alone, and undone if it was taken together with others.
_doomed: set[UUID] = set()


def _write(context: TaskContext) -> None:
    with connection.cursor() as cursor:
        row: list[str | int] = [str(context.instance_id), context.element_id, os.getpid()]
        cursor.execute("INSERT INTO chaos_step (instance, element, pid) VALUES (%s, %s, %s)", row)
    jobs.take_time(context.variables["seconds"])


@service_task("chaos.effect")
def effect(context: TaskContext) -> None:
    """Writes a row, and perhaps fails a number of times afterwards."""
    _write(context)
    if context.job is not None and context.job.attempt <= context.variables["failures"]:
        raise jobs.Injected("rolls its row back")


@service_task("chaos.check")
def check(context: TaskContext) -> None:
    """The same, and may end with an error of the business; its row is rolled back then, too."""
    if context.variables["refused"]:
        raise BpmnError("REFUSED")
    _write(context)


@service_task("chaos.broken")
def broken(context: TaskContext) -> None:
    """Fails each time."""
    _write(context)
    raise jobs.Injected("for good")


@job(name="chaos.step", retries=jobs.PLAN)
def step(context: JobContext, name: str, element: str, seconds: float, failures: int, dies: bool) -> dict[str, Any]:
    """A step of a flow; perhaps it fails a number of times, or its node is killed once."""
    told = {"name": name, "element": element, "job": context.id, "attempt": context.attempt}
    jobs.JOURNAL.write("step-begins", **told)
    jobs.take_time(seconds)
    if context.attempt <= failures:
        raise jobs.Injected("not yet")
    if dies and jobs.calls_of(f"{name} {element}") == 1:
        _doomed.add(context.id)
    jobs.JOURNAL.write("step-ends", **told)
    return {"element": element}


def _die_for(taken: set[UUID]) -> None:
    if taken & _doomed:
        jobs.JOURNAL.write("kill", node=jobs.NAME, of=os.getpid())
        os.kill(os.getpid(), signal.SIGKILL)


def _dying(proceed: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(proceed)
    def dying(using: str, root: UUID, event: Any, **how: Any) -> Any:
        changes = proceed(using, root, event, **how)
        if isinstance(event, JobDone):
            _die_for({event.job})
        return changes

    return dying


def _dying_together(proceed: Callable[..., set[UUID]]) -> Callable[..., set[UUID]]:
    @wraps(proceed)
    def dying(using: str, ends: Any) -> set[UUID]:
        waiting = proceed(using, ends)
        _die_for({work.id for work, _ in ends} - waiting)
        return waiting

    return dying


if jobs.NAME:
    steps.proceed = _dying(steps.proceed)
    steps.proceed_together = _dying_together(steps.proceed_together)
