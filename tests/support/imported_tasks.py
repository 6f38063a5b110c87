"""Tasks of a project that migrates from django-tasks-db. Imported while TASKS names the backend."""

import jobexec
from jobexec.backends.compat import task

ran: list[object] = []


@task
def remember(number, *, double=False):
    ran.append(number)
    return number * 2 if double else number


@task(takes_context=True)
def with_context(context):
    ran.append(context.task_result.id)


def _resource(number):
    if number == "broken":
        raise KeyError(number)
    return f"api:{number}" if number else None


@jobexec.options(resource=_resource)
@task
def limited(number):
    ran.append(number)


@jobexec.options(encrypted=False)
@task
def open_(number):
    ran.append(number)


def no_task():
    """An ordinary function."""
