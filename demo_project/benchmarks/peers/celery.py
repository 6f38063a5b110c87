"""Celery, on Redis."""

import sys

from celery import Celery

from demo_project.benchmarks.peers import work

PACKAGES = ("celery", "redis")
SETTINGS = f"pool threads, concurrency {work.THREADS}, ignore_result"

app = Celery("peers", broker=work.REDIS)
app.conf.task_ignore_result = True
app.conf.task_default_queue = "jobexec-peers-celery"
KINDS = {kind: app.task(getattr(work, kind), name=f"peers.{kind}") for kind in ("write", "wait")}


def prepare() -> None:
    app.control.purge()


def enqueue_one(kind: str) -> None:
    KINDS[kind].delay()


def enqueue_many(kind: str, count: int) -> None:
    with app.producer_pool.acquire() as producer:
        for _ in range(count):
            KINDS[kind].apply_async(producer=producer)


def worker() -> list[str]:
    options = ["worker", "--pool", "threads", "--concurrency", str(work.THREADS), "--loglevel", "ERROR"]
    return [sys.executable, "-m", "celery", "--app", __name__, "--quiet", *options]
