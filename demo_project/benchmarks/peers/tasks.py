"""Tasks of Django, for django-tasks-db."""

from django.tasks import task

from demo_project.benchmarks.peers import work


@task
def write() -> None:
    work.write()


@task
def wait() -> None:
    work.wait()
