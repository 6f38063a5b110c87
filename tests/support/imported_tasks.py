"""Tasks of a project that migrates from django-tasks-db. Imported while TASKS names the backend."""

from jobexec.backends.compat import task

ran: list[object] = []


@task
def remember(number, *, double=False):
    ran.append(number)
    return number * 2 if double else number


@task(takes_context=True)
def with_context(context):
    ran.append(context.task_result.id)


def no_task():
    """An ordinary function."""
