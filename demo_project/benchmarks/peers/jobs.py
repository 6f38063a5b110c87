"""jobexec. An installed app's ``jobs`` is where it looks for handlers."""

import sys

from demo_project.benchmarks.peers import work
from jobexec import job

PACKAGES = ("jobexec", "django", "psycopg")
SETTINGS = f"{work.THREADS} threads"

KINDS = {kind: job(name=f"peers.{kind}")(getattr(work, kind)) for kind in ("write", "wait")}


def prepare() -> None:
    from django.core.management import call_command

    from jobexec.models import JOB_TABLES, JobLog

    call_command("migrate", verbosity=0)
    for table in (*JOB_TABLES, JobLog):
        table.objects.all()._raw_delete("default")


def enqueue_one(kind: str) -> None:
    KINDS[kind].enqueue()


def enqueue_many(kind: str, count: int) -> None:
    KINDS[kind].enqueue_many(() for _ in range(count))


def worker() -> list[str]:
    return [sys.executable, "-m", "django", "runjobexecutor", "-v", "0"]
