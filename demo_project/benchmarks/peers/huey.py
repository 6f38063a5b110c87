"""huey, on Redis."""

import sys

from huey import RedisHuey

from demo_project.benchmarks.peers import work

PACKAGES = ("huey", "redis")
SETTINGS = f"worker type thread, {work.THREADS} workers, no results"

queue = RedisHuey("jobexec-peers", url=work.REDIS, results=False)
KINDS = {kind: queue.task(name=f"peers_{kind}")(getattr(work, kind)) for kind in ("write", "wait")}


def prepare() -> None:
    queue.flush()


def enqueue_one(kind: str) -> None:
    KINDS[kind]()


def enqueue_many(kind: str, count: int) -> None:
    for _ in range(count):
        enqueue_one(kind)


def worker() -> list[str]:
    options = ["--workers", str(work.THREADS), "--worker-type", "thread", "--quiet"]
    return [sys.executable, "-m", "huey.bin.huey_consumer", f"{__name__}.queue", *options]
