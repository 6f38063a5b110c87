"""procrastinate."""

import sys
from functools import cache

import psycopg
from procrastinate import App, PsycopgConnector

from demo_project.benchmarks.peers import work

PACKAGES = ("procrastinate", "psycopg")
SETTINGS = f"concurrency {work.THREADS}"

app = App(connector=PsycopgConnector(conninfo=work.DATABASE))
KINDS = {"write": app.task(work.write, name="write"), "wait": app.task(work.wait, name="wait")}


@cache
def _opened() -> App:
    sync = app.with_connector(app.connector.get_sync_connector())
    sync.open()
    return sync


def prepare() -> None:
    with psycopg.connect(work.DATABASE, autocommit=True) as connection:
        there = connection.execute("SELECT to_regclass('procrastinate_jobs')").fetchone()
        if there == (None,):
            _opened().schema_manager.apply_schema()
        connection.execute("TRUNCATE procrastinate_jobs CASCADE")


def enqueue_one(kind: str) -> None:
    _opened()
    KINDS[kind].defer()


def enqueue_many(kind: str, count: int) -> None:
    _opened()
    for begin in range(0, count, 1000):
        KINDS[kind].batch_defer(*({} for _ in range(min(1000, count - begin))))


def worker() -> list[str]:
    options = ["worker", "--concurrency", str(work.THREADS)]
    return [sys.executable, "-m", "procrastinate", "--app", f"{__name__}.app", *options]
