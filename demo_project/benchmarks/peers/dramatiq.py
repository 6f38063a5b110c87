"""Dramatiq, on Redis."""

import sys

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from demo_project.benchmarks.peers import work

PACKAGES = ("dramatiq", "redis")
SETTINGS = f"one process, {work.THREADS} threads"
QUEUE = "jobexec-peers"

broker = RedisBroker(url=work.REDIS)
dramatiq.set_broker(broker)
KINDS = {
    kind: dramatiq.actor(getattr(work, kind), actor_name=f"peers_{kind}", queue_name=QUEUE)
    for kind in ("write", "wait")
}


def prepare() -> None:
    broker.flush(QUEUE)


def enqueue_one(kind: str) -> None:
    KINDS[kind].send()


def enqueue_many(kind: str, count: int) -> None:
    for _ in range(count):
        enqueue_one(kind)


def worker() -> list[str]:
    return [sys.executable, "-m", "dramatiq", __name__, "--processes", "1", "--threads", str(work.THREADS)]
