"""pgqueuer. Its handlers are coroutines; a waiting one gives its place to others."""

import asyncio
import subprocess
import sys
from functools import cache
from typing import Any

import psycopg
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver, SyncPsycopgDriver
from pgqueuer.queries import SyncQueries

from demo_project.benchmarks.peers import work

PACKAGES = ("pgqueuer", "asyncpg")
BATCH = 500
SETTINGS = f"batch_size {BATCH}, at most {work.THREADS} waiting handlers at a time"


async def serve() -> None:
    """Work until the process is ended. The release's own command fails with the typer that is installed beside it."""
    import asyncpg

    queue = PgQueuer(AsyncpgDriver(await asyncpg.connect(work.DATABASE)))
    places = asyncio.Semaphore(work.THREADS)  # its own concurrency_limit makes it five times as slow

    @queue.entrypoint("write")
    async def write(job: Any) -> None:
        work.write()

    @queue.entrypoint("wait")
    async def wait(job: Any) -> None:
        async with places:
            await asyncio.sleep(work.WAIT)
        work.write()

    await queue.run(batch_size=BATCH)


@cache
def _queries() -> SyncQueries:
    return SyncQueries(SyncPsycopgDriver(psycopg.connect(work.DATABASE, autocommit=True)))


def prepare() -> None:
    with psycopg.connect(work.DATABASE, autocommit=True) as connection:
        if connection.execute("SELECT to_regclass('pgqueuer')").fetchone() == (None,):
            command = [sys.executable, "-m", "pgqueuer", "--pg-dsn", work.DATABASE, "install"]
            subprocess.run(command, check=True, capture_output=True)
        connection.execute("TRUNCATE pgqueuer, pgqueuer_log")


def enqueue_one(kind: str) -> None:
    _queries().enqueue(kind, None)


def enqueue_many(kind: str, count: int) -> None:
    for begin in range(0, count, 1000):
        size = min(1000, count - begin)
        _queries().enqueue([kind] * size, [None] * size, [0] * size)


def worker() -> list[str]:
    return [sys.executable, "-m", __name__]


if __name__ == "__main__":
    asyncio.run(serve())
