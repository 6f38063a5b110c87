"""The tasks of django.tasks: as the handlers in `jobs`, and what they return tells which run it was."""

import asyncio
import time
from typing import Any
from uuid import uuid4

from jobexec import options
from jobexec.backends.compat import task

from .jobs import PLAN, Injected, told


def _returned(run: dict[str, Any], attempt: int) -> dict[str, Any]:
    """What no other run returns; it is in the line of the end of this one."""
    value = run["returns"] = {"run": uuid4().hex, "attempt": attempt}
    return value


@task(takes_context=True)
def answers(context: Any, seconds: float, failures: int) -> dict[str, Any]:
    """Takes some time, and perhaps fails a number of times."""
    with told(context.job) as run:
        time.sleep(seconds)
        if context.attempt <= failures:
            raise Injected("not yet")
        return _returned(run, context.attempt)


@task(takes_context=True)
async def answers_later(context: Any, seconds: float, failures: int) -> dict[str, Any]:
    """The same without a thread."""
    with told(context.job) as run:
        await asyncio.sleep(seconds)
        if context.attempt <= failures:
            raise Injected("not yet")
        return _returned(run, context.attempt)


@task(takes_context=True)
def mute(context: Any, seconds: float) -> Any:
    """Ends well, and what it returns is no JSON: it is not tried again."""
    with told(context.job) as run:
        time.sleep(seconds)
        run["result"] = "failed"
        return object()


answers = options(answers, retries=PLAN)
answers_later = options(answers_later, retries=PLAN)
mute = options(mute, retries=PLAN)
