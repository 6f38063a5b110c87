"""A thread's database connections between two jobs or two polls, which Django would look after between two requests."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

from django.db import connections

logger = logging.getLogger("jobexec.executor")


class _Thread(threading.local):
    connections: list[Any] | None = None


_thread = _Thread()


def of_thread() -> list[Any]:
    """This thread's connection objects, of all databases; none is connected for it.

    Remembered for the thread, because to ask Django for them takes longer than a tiny job.
    """
    if _thread.connections is None:
        _thread.connections = [connections[alias] for alias in connections]
    return _thread.connections


def clean_connections() -> list[str]:
    """After a job: :func:`refresh_connections`; returns the databases on which a transaction was open.

    It is rolled back, and the connection forgotten.
    """
    left = []
    for connection in of_thread():
        if connection.in_atomic_block or (connection.connection is not None and not connection.autocommit):
            left.append(connection.alias)
            connection.in_atomic_block = True  # so that it is not closed only, but forgotten
            close_connection(connection)
        elif connection.connection is not None:
            _close_one(connection, wait=None)
    return left


def close_connections() -> None:
    """Close all connections of this thread, whatever state a handler or the network has left them in."""
    for connection in connections.all(initialized_only=True):
        close_connection(connection)


def close_connection(connection: Any) -> None:
    """Close one; if even that fails, or it is in a transaction, forget it, so that the next query opens a good one."""
    broken = connection.in_atomic_block
    connection.in_atomic_block = False
    try:
        connection.close()
    except Exception as error:
        logger.debug("A connection to %s could not be closed: %s", connection.alias, error)
        broken = True
    if broken:
        del connections[connection.alias]
        _thread.connections = None


def discard_broken_connections() -> None:
    """Close this thread's connections on which an error occurred, so that the next query opens a good one."""
    for connection in connections.all(initialized_only=True):
        if connection.errors_occurred and not connection.in_atomic_block:
            close_connection(connection)


def refresh_connections() -> None:
    """Between two jobs or polls of a busy thread: what ``close_old_connections`` and ``reset_queries`` do in Django.

    Recorded queries are forgotten. Closed is a connection on which an error occurred, or that is older than
    CONN_MAX_AGE; one of a pool goes back to it. What stays open is asked first whether it is usable, if
    CONN_HEALTH_CHECKS says so. One thing differs: with CONN_MAX_AGE 0, Django's default, a busy thread keeps its
    connection. To connect again for every job would cost more than most jobs; see the explanation of decisions.
    """
    _close(wait=None)


def rest_connections(wait: float = 0.0) -> None:
    """Before ``wait`` idle seconds, or after some: also close what CONN_MAX_AGE 0 would not keep any longer."""
    _close(wait)


def leave_connections() -> None:
    """Close what this thread has open outside of a transaction: it will not use the database again for long."""
    for connection in connections.all(initialized_only=True):
        if not connection.in_atomic_block:
            close_connection(connection)


def _close(wait: float | None) -> None:
    for connection in of_thread():
        # Not in a caller's transaction; what a handler leaves open is dealt with after its run.
        if connection.connection is not None and not connection.in_atomic_block:
            _close_one(connection, wait)


def _close_one(connection: Any, wait: float | None) -> None:
    connection.queries_log.clear()
    connection.health_check_done = False
    if connection.errors_occurred or is_pooled(connection) or _too_old(connection, wait):
        close_connection(connection)


def is_pooled(connection: Any) -> bool:
    """Whether closing it gives it back to psycopg's pool (``OPTIONS["pool"]``), from which the next one comes."""
    return connection.vendor == "postgresql" and bool(connection.settings_dict["OPTIONS"].get("pool"))


def is_behind_pooler(raw: Any) -> bool:
    """Whether a psycopg connection goes to a pooler (PgBouncer) and not to the PostgreSQL server itself.

    A pooler deals out many server processes and therefore tells an id of its own at the login. Raises what the query
    raises.
    """
    with raw.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return bool(cursor.fetchone()[0] != raw.info.backend_pid)


def _too_old(connection: Any, wait: float | None) -> bool:
    age = connection.settings_dict["CONN_MAX_AGE"]
    if age == 0:
        return wait is not None
    # Django's own reading, of the time at which it connected; None means for ever.
    return connection.close_at is not None and time.monotonic() + (wait or 0.0) >= connection.close_at


def rest_connections_outside(lock: threading.Condition) -> None:
    """:func:`rest_connections` with a lock that this thread holds let go meanwhile.

    For threads that wait on a condition, which then hold its lock again: closing a connection may take long, and must
    not keep others from the queue.
    """
    lock.release()
    try:
        rest_connections()
    finally:
        lock.acquire()
