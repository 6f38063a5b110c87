"""Cleans up a thread's database connections between two jobs or polls, as Django does between two requests."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from django.db import Error, connections, transaction
from django.db.backends.signals import connection_created

from jobexec.conf import get_settings
from jobexec.operations.sql.dialect import dialect_of
from jobexec.operations.sql.errors import one_line
from jobexec.operations.sql.session import SessionWatch, in_transaction, is_closed, is_lost

logger = logging.getLogger("jobexec.executor")

_View = TypeVar("_View", bound=Callable[..., Any])

#: How often a thread of this process found a connection to each database dead; and how often altogether.
_losses: Counter[str] = Counter()
_all_losses = 0
_lock = threading.Lock()


class _Thread(threading.local):
    connections: list[Any] | None = None
    #: Whether the thread runs jobs, which may change their sessions; and the watch of each session.
    watching = False
    watches: list[SessionWatch | None] | None = None
    #: The driver's connections after the last job.
    raws: Sequence[Any] = ()
    #: The losses that this thread has handled.
    losses: Mapping[str, int] = {}
    all_losses = 0


_thread = _Thread()


def own_transactions(view: _View) -> _View:
    """Exempt a view from the ATOMIC_REQUESTS of all databases.

    Django refuses coroutines there, and an absent database would be a server error before the view is called.
    """
    for alias in connections:
        view = transaction.non_atomic_requests(using=alias)(view)
    return view


def of_thread() -> list[Any]:
    """This thread's connection objects, of all databases; does not connect them.

    Cached for the thread, because asking Django for them takes longer than a tiny job.
    """
    if _thread.connections is None:
        _thread.connections = [connections[alias] for alias in connections]
    return _thread.connections


def prepare_connections() -> None:
    """Before a job: close connections opened before another thread of this process lost its one to that database.

    One restart of a server breaks all connections. Otherwise each thread would discover that by itself, at the cost of
    a job.
    """
    if _thread.watches is None and _thread.watching:
        _watch()
    if _thread.all_losses == _all_losses:
        return
    _thread.all_losses = _all_losses
    for connection in of_thread():
        losses = _losses[connection.alias]
        if losses != _thread.losses.get(connection.alias, 0):
            _thread.losses = {**_thread.losses, connection.alias: losses}
            if connection.connection is not None and not connection.in_atomic_block:
                close_connection(connection)


def doubt_connections() -> None:
    """After this thread was idle: let Django check its connections before their next use.

    With CONN_MAX_AGE 0 a project expects a new connection for each request. The check costs a round trip, once after a
    pause, and only for a job that uses the database.
    """
    for connection in of_thread():
        if connection.connection is not None and not connection.in_atomic_block:
            connection.health_check_enabled, connection.health_check_done = True, False


def is_broken(using: str) -> bool:
    """Whether this thread's connection has just been lost; call it inside its transaction, while an error propagates.

    Later is too late: Django's ``atomic`` reconnects at its end.
    """
    connection = connections[using]
    return connection.errors_occurred and (connection.connection is None or _is_dead(connection))


def note_loss(error: BaseException) -> None:
    """After a job's error about a lost connection: count a loss for each database that has been reconnected since."""
    if not is_lost(error):
        return
    for raw, connection in zip(_thread.raws, of_thread(), strict=False):
        if raw is not None and raw is not connection.connection and not connection.errors_occurred:
            _lost(connection.alias)


def _is_dead(connection: Any) -> bool:
    # In this order: is_usable() of PyMySQL reconnects, and so is always true.
    return is_closed(connection) or not connection.is_usable()


def watch_sessions() -> None:
    """Watch from now on whether jobs in this thread, which must belong to the executor, change a session."""
    _thread.watching = not get_settings().keep_changed_sessions


def _watch() -> None:
    with _lock:  # after the project's receivers, which are connected by now
        connection_created.disconnect(_session_begins)
        connection_created.connect(_session_begins)
    _thread.watches = [_watch_of(connection) for connection in of_thread()]


def _watch_of(connection: Any) -> SessionWatch:
    for wrapper in connection.execute_wrappers:
        if isinstance(wrapper, SessionWatch):
            return wrapper
    watch = SessionWatch()
    connection.execute_wrappers.append(watch)
    return watch


def _session_begins(connection: Any, **kwargs: Any) -> None:
    """The session's state set by Django and the receivers of connection_created counts as unchanged."""
    for wrapper in connection.execute_wrappers:
        if isinstance(wrapper, SessionWatch):
            wrapper.changed = False


connection_created.connect(_session_begins)


def clean_connections() -> list[str]:
    """After a job: :func:`refresh_connections`; returns the databases on which a transaction was open.

    It is rolled back, and the connection discarded. A connection whose session the job has changed is closed, so that
    the next job on this thread does not inherit a role, a setting or a lock.
    """
    left: list[str] = []
    used, watches = False, _thread.watches
    for place, connection in enumerate(of_thread()):
        if connection.connection is None and not (connection.in_atomic_block or connection.errors_occurred):
            continue  # most jobs use none
        used = True
        if not _clean(connection, watches[place] if watches else None):
            left.append(connection.alias)
    if used or _thread.raws:
        _thread.raws = [connection.connection for connection in of_thread()] if used else ()
    return left


def _clean(connection: Any, watch: SessionWatch | None) -> bool:
    """Clean one connection; returns whether it was left outside of a transaction."""
    changed = watch is not None and watch.changed
    if watch is not None:
        watch.changed = False
    raw = connection.connection
    if connection.in_atomic_block or (raw is not None and (not connection.autocommit or in_transaction(connection))):
        connection.in_atomic_block = True  # so that it is not only closed, but discarded
        close_connection(connection)
        return False
    if raw is None:
        if connection.errors_occurred:  # it broke in a transaction, and Django has dropped it
            connection.errors_occurred = False
            _lost(connection.alias)
    elif changed or is_closed(connection):
        if connection.errors_occurred and is_closed(connection):
            _lost(connection.alias)
        with suppress(Exception):  # the driver's connection: a pooled one would come back unchanged
            raw.close()
        close_connection(connection)
    else:
        _close_one(connection, wait=None)
    return True


def _lost(using: str) -> None:
    global _all_losses
    with _lock:
        _losses[using] += 1
        _all_losses += 1


def close_connections() -> None:
    """Close all connections of this thread, whatever state a handler or the network has left them in."""
    for connection in connections.all(initialized_only=True):
        close_connection(connection)


def close_connection(connection: Any) -> None:
    """Close one; if that fails, or it is in a transaction, discard it, so that the next query opens a good one."""
    broken = connection.in_atomic_block
    connection.in_atomic_block = False
    try:
        connection.close()
    except Exception as error:
        logger.debug("A connection to %s could not be closed: %s", connection.alias, one_line(error))
        broken = True
    if broken:
        del connections[connection.alias]
        _thread.connections = _thread.watches = None


def discard_broken_connections() -> None:
    """Close this thread's connections on which an error occurred, so that the next query opens a good one."""
    for connection in connections.all(initialized_only=True):
        if connection.errors_occurred and not connection.in_atomic_block:
            close_connection(connection)


def refresh_connections() -> None:
    """Between two jobs or polls of a busy thread: the counterpart of ``close_old_connections`` and ``reset_queries``.

    Recorded queries are deleted. A connection on which an error occurred, or that is older than CONN_MAX_AGE, is
    closed; a pooled one returns to its pool. Open ones are checked before their next use if CONN_HEALTH_CHECKS is set.
    One thing differs: with CONN_MAX_AGE 0, Django's default, a busy thread keeps its connection. Reconnecting for every
    job would cost more than most jobs; see the explanation of decisions.
    """
    _close(wait=None)


def rest_connections(wait: float = 0.0) -> None:
    """Before ``wait`` idle seconds, or after some: also close connections that CONN_MAX_AGE 0 would not keep."""
    _close(wait)


def leave_connections() -> None:
    """Close this thread's connections outside of a transaction: it will not use the database again for long."""
    for connection in connections.all(initialized_only=True):
        if not connection.in_atomic_block:
            close_connection(connection)


def _close(wait: float | None) -> None:
    for connection in of_thread():
        # Not in a caller's transaction; those left open by a handler are cleaned up after its run.
        if connection.connection is not None and not connection.in_atomic_block:
            _close_one(connection, wait)


def _close_one(connection: Any, wait: float | None) -> None:
    connection.queries_log.clear()
    connection.health_check_done = False
    connection.health_check_enabled = connection.settings_dict["CONN_HEALTH_CHECKS"]
    if connection.errors_occurred and _is_dead(connection):
        _lost(connection.alias)
    if connection.errors_occurred or is_pooled(connection) or _too_old(connection, wait):
        close_connection(connection)


def is_pooled(connection: Any) -> bool:
    """Whether closing it returns it to psycopg's pool (``OPTIONS["pool"]``), from which the next one comes."""
    return dialect_of(connection).notify is not None and bool(connection.settings_dict["OPTIONS"].get("pool"))


def reaches_pooler(alias: str) -> bool:
    """Whether the connections of an alias go to a pooler. False if the database does not answer now."""
    connection = connections[alias]
    try:
        connection.ensure_connection()
        with connection.wrap_database_errors:
            return dialect_of(connection).is_behind_pooler(connection.connection)
    except Error:
        return False
    finally:
        rest_connections()


def _too_old(connection: Any, wait: float | None) -> bool:
    age = connection.settings_dict["CONN_MAX_AGE"]
    if age == 0:
        return wait is not None
    # As Django determines it, from the time of connecting; None means for ever.
    return connection.close_at is not None and time.monotonic() + (wait or 0.0) >= connection.close_at


def rest_connections_outside(lock: threading.Condition) -> None:
    """:func:`rest_connections`, with the lock held by this thread released meanwhile.

    For threads that wait on a condition and so hold its lock: closing a connection may take long, and must not keep
    other threads from the queue.
    """
    lock.release()
    try:
        rest_connections()
    finally:
        lock.acquire()
