"""Tasks for tests; imported only by tests/backends/conftest.py, with jobexec as the backend.

Written for all versions: keywords of ``@task`` need Django 6.1 or later, ``jobexec.options`` works everywhere.
"""

import threading
from collections import defaultdict

import jobexec
from jobexec.backends.compat import task

#: The tasks that ran: name of the task to the arguments of its calls.
seen = defaultdict(list)
#: The function that a test makes `hooked` call.
hooks = []


@task
def greet(name, *, times=1):
    seen["greet"].append((name, times))
    return [f"Hello {name}"] * times


@task(queue_name="emails", priority=7)
def send(order):
    seen["send"].append(order)


@task(takes_context=True)
def attempt(context, number=0):
    seen["attempt"].append((number, context.attempt, context.task_result.attempts, context.job.attempt))
    return context.attempt


@jobexec.options(retries="R3/PT1S", exclusive=False, sensitive=["card"])
@task
def pay(card, fail=True):
    seen["pay"].append(card)
    if fail:
        raise ValueError(f"no money on {card}")
    return "paid"


@task
def hooked(*args):
    seen["hooked"].append(args)
    return hooks[0](*args)


@task(takes_context=True)
def with_context(context, *args):
    return hooks[0](context, *args)


@task
async def wait(number):
    seen["wait"].append((number, threading.current_thread().name))
    return number + 1


@task(takes_context=True)
async def wait_with_context(context, number):
    result = context.task_result
    seen["wait_with_context"].append((number, context.attempt, result.status, result.enqueued_at, result.worker_ids))
    return number


def plain(number):
    """Not a task yet."""


def other(number):
    """Not a task either."""


async def plain_async(number):
    """Not a task, and async."""
