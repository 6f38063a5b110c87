"""Threads with their own database connections, and a check that one of them waits for a lock."""

import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

from django.db import connections, transaction

TIMEOUT = 60.0

_WAITING = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
# A waiting transaction in the output of InnoDB's status. The view innodb_trx keeps showing an old state as long as any
# connection reads it every 0.1 s: several processes that poll it for each other's locks would see none.
_WAITING_THREAD = re.compile(r"^LOCK WAIT .*?thread id (\d+)", re.MULTILINE | re.DOTALL)


def start(alias: str, function: Callable[[], Any]) -> "Future[Any]":
    """Call the function in a thread of its own; `result(TIMEOUT)` is its result."""
    future: Future[Any] = Future()

    def work() -> None:
        try:
            result = function()
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(result)
        finally:
            connections[alias].close()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    future.thread = thread  # type: ignore[attr-defined]
    return future


def finish(future: "Future[Any]") -> Any:
    result = future.result(TIMEOUT)
    future.thread.join(TIMEOUT)  # type: ignore[attr-defined]
    return result


def together(alias: str, *functions: Callable[[], Any]) -> list[Any]:
    """Call the functions at the same moment, each in its own thread, and return their results."""
    barrier = threading.Barrier(len(functions))

    def at_once(function: Callable[[], Any]) -> Callable[[], Any]:
        def call() -> Any:
            connections[alias].ensure_connection()
            barrier.wait(TIMEOUT)
            return function()

        return call

    futures = [start(alias, at_once(function)) for function in functions]
    return [finish(future) for future in futures]


@contextmanager
def held(alias: str) -> Iterator[Callable[[Callable[[], Any]], Any]]:
    """Keep a transaction open in another thread and run functions in it; leaving the block commits it.

    `with held(alias) as inside: inside(lambda: ...)`. To roll it back, raise Undo in a function.
    """
    calls: list[tuple[Callable[[], Any], Future[Any]]] = []
    changed = threading.Condition()
    done = False

    def work() -> None:
        try:
            with transaction.atomic(alias):
                while True:
                    with changed:
                        changed.wait_for(lambda: calls or done, TIMEOUT)
                        if not calls:
                            return
                        function, future = calls.pop(0)
                    try:
                        future.set_result(function())
                    except Undo:
                        future.set_result(None)
                        raise
                    except BaseException as error:
                        future.set_exception(error)
        except Undo:
            pass

    def inside(function: Callable[[], Any]) -> Any:
        future: Future[Any] = Future()
        with changed:
            calls.append((function, future))
            changed.notify_all()
        return future.result(TIMEOUT)

    holder = start(alias, work)
    try:
        yield inside
    finally:
        with changed:
            done = True
            changed.notify_all()
        finish(holder)


class Undo(Exception):
    """Raised to roll back a held transaction."""


def undo() -> None:
    raise Undo


_CLIENTS = {
    "postgresql": "SELECT pid, application_name, state, query FROM pg_stat_activity"
    " WHERE datname = current_database() AND backend_type = 'client backend'",
    "mysql": "SELECT id, command, state, info FROM information_schema.processlist WHERE db = DATABASE()",
}


def clients(alias: str) -> dict[int, list[Any]]:
    """Return the connections to the database by the server's number; none where there is no server.

    They are not only the test's: a thread that a library keeps for the life of the process (such as asgiref's) keeps
    its connection.
    """
    if connections[alias].vendor not in _CLIENTS:
        return {}
    with connections[alias].cursor() as cursor:
        cursor.execute(_CLIENTS[connections[alias].vendor])
        return {number: what for number, *what in cursor.fetchall()}


def wait_until_waiting(alias: str, future: "Future[Any]") -> None:
    """Return once a thread waits for a lock in the database; fails if `future` ends without having waited."""
    deadline = time.monotonic() + TIMEOUT
    while time.monotonic() < deadline:
        if _waits(alias):
            assert not future.done()
            return
        assert not future.done(), f"it did not wait: {future!r}"
        time.sleep(0.01)
    raise AssertionError("nobody waits for a lock")


def _waits(alias: str) -> bool:
    """Whether a connection to this database waits for a lock now."""
    with connections[alias].cursor() as cursor:
        if connections[alias].vendor == "postgresql":
            cursor.execute(_WAITING)
            return bool(cursor.fetchone()[0])
        cursor.execute("SHOW ENGINE INNODB STATUS")
        threads = {
            thread for part in cursor.fetchone()[2].split("---TRANSACTION ") for thread in _WAITING_THREAD.findall(part)
        }
        cursor.execute("SELECT id FROM information_schema.processlist WHERE db = DATABASE()")
        return any(str(number) in threads for (number,) in cursor.fetchall())
