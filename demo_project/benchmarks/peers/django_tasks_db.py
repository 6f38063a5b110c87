"""django-tasks-db. One worker is one thread; many calls are enqueued one by one."""

import sys

PACKAGES = ("django-tasks-db", "django", "psycopg")
SETTINGS = "one worker, which has one thread"


def prepare() -> None:
    from django.core.management import call_command
    from django_tasks_db.models import DBTaskResult

    call_command("migrate", verbosity=0)
    DBTaskResult.objects.all()._raw_delete("default")


def enqueue_one(kind: str) -> None:
    from demo_project.benchmarks.peers import tasks

    getattr(tasks, kind).enqueue()


def enqueue_many(kind: str, count: int) -> None:
    for _ in range(count):
        enqueue_one(kind)


def worker() -> list[str]:
    return [sys.executable, "-m", "django", "db_worker", "-v", "0"]
