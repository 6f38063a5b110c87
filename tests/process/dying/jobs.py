"""An app of executors that die at a line of a step: TEST_DIES_AT says where, and at which of its visits.

All executors of a test count their visits together, in the file that TEST_DIES_COUNT names.
"""

import os
import signal
from collections.abc import Callable
from datetime import date
from functools import wraps
from pathlib import Path
from typing import Any

from demo_project.bookings.models import Booking
from jobexec import job, signals
from jobexec.executor.run import execution, group
from jobexec.operations.external import settle
from jobexec.processes import service_task
from jobexec.processes.handlers import stepping, steps, together
from jobexec.processes.handlers.together import StepGroup
from jobexec.processes.store import lock
from jobexec.processes.store.statement import Statement


@job(retries="R9/PT0.1S")
def run_outside(path: str, text: str) -> str:
    """Leave a line."""
    with Path(path).open("a") as file:
        file.write(f"{text} {os.getpid()}\n")
    _visit("function")
    return text


@job(atomic=True, retries="R9/PT0.1S")
def run_inside(text: str) -> str:
    """Write a row in the transaction of the step."""
    _insert(text)
    return text


@service_task("dying.write")
def write(context: Any) -> None:
    """Write a row with the name of the element, in the transaction of the step."""
    _insert(context.element_id)


def _insert(text: str) -> None:
    Booking.objects.create(visitor=text, city="Athens", arrival=date(2026, 5, 1), departure=date(2026, 5, 2))
    _visit("handler")


def _visit(place: str) -> None:
    wanted, _, visits = os.environ.get("TEST_DIES_AT", "").partition(":")
    if place != wanted:
        return
    with open(os.environ["TEST_DIES_COUNT"], "ab") as file:
        file.write(b".")
        file.flush()
        if str(file.tell()) in visits.split(","):
            os.kill(os.getpid(), signal.SIGKILL)


def _after(function: Callable[..., Any], place: str) -> Callable[..., Any]:
    @wraps(function)
    def told(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        _visit(place)
        return result

    return told


if "TEST_DIES_AT" in os.environ:
    lock.locked, lock.locked_now = _after(lock.locked, "lock"), _after(lock.locked_now, "lock")
    Statement.send = _after(Statement.send, "flush")  # type: ignore[method-assign]
    stepping.create = _after(stepping.create, "jobs")
    settle.callback_of = _after(settle.callback_of, "completion")
    steps.proceed_together = _after(steps.proceed_together, "step of a function")
    StepGroup.end = _after(StepGroup.end, "end of a group")  # type: ignore[method-assign]
    group.complete_or_lose = _after(group.complete_or_lose, "jobs of a group")
    together.is_quick = lambda handler: True  # also on a slow machine
    group._LONGEST = 600.0
    execution.complete_alone = _after(execution.complete_alone, "end of an atomic job")
    signals.job_completed.connect(lambda **kwargs: _visit("settled"), weak=False)
    assert stepping.lock is lock
