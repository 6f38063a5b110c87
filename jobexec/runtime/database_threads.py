"""A few threads that use the database for coroutines, which cannot do so themselves."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from django.db import connections

from jobexec.exceptions import JobExecError
from jobexec.operations.sql.session import leaves_open
from jobexec.runtime.connections import clean_connections, close_connections, prepare_connections
from jobexec.runtime.threads import spawn

T = TypeVar("T")

THREADS = 8
_IDLE = 5.0  # seconds after which a thread without work ends, and closes its connection
#: Calls that may wait.
LONGEST_LINE = 2000


class Overloaded(JobExecError):
    """This process has more to do than it can do in time."""


class OutcomeUnknown(JobExecError):
    """The connection to the database was lost, perhaps after the commit: it is unknown whether this has happened.

    A client has to find out before it repeats the call.
    """


def once(verb: Callable[..., T], using: str, *args: Any, **named: Any) -> T:
    """Call a verb that must not happen twice on this database. Raises OutcomeUnknown if it may have happened.

    Another database error means that nothing has happened: the server has refused a statement, or there was no
    connection at the start.
    """
    prepare_connections()
    connections[using].ensure_connection()
    try:
        return verb(using, *args, **named)
    except Exception as error:
        if leaves_open(error):
            raise OutcomeUnknown from error
        raise


class DatabaseThreads:
    """At most ``most`` threads, which start when there is work and end when there is none.

    Each has its own database connections. They are cleaned up after each call as Django does after a request, except
    that a busy thread keeps its own even with CONN_MAX_AGE 0.
    """

    def __init__(self, name: str, most: int = THREADS) -> None:
        self._name, self.most = name, most
        self._changed = threading.Condition()
        self._line: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._threads = self._idle = 0
        self._closed = False

    @property
    def busy(self) -> bool:
        """Whether calls wait for a thread."""
        return bool(self._line)

    def submit(self, work: Callable[[], T], *, urgent: bool = False, again: bool = False) -> Future[T]:
        """Run the call; the future gets its result or error. Raises Overloaded if too many calls wait already.

        ``urgent``: before all waiting calls, however many they are; for calls that reduce the load. ``again``: behind
        them, however many they are; for a call that goes on later, so that others get its thread.
        """
        future: Future[T] = Future()
        with self._changed:
            if self._closed or (len(self._line) >= LONGEST_LINE and not (urgent or again)):
                raise Overloaded
            (self._line.appendleft if urgent else self._line.append)((future, work))
            if len(self._line) > self._idle and self._threads < self.most:
                self._threads += 1
                spawn(self._name, self._work)
            self._changed.notify()
        return future

    def close(self, timeout: float) -> bool:
        """Run the waiting calls and end, accepting no more; returns whether ``timeout`` seconds sufficed."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            return self._changed.wait_for(lambda: not self._threads, timeout)

    def _work(self) -> None:
        while (item := self._next()) is not None:
            future, work = item
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(work())
                except BaseException as error:
                    future.set_exception(error)
            del item, future, work  # do not keep the result alive while this thread waits
            clean_connections()

    def _next(self) -> tuple[Future[Any], Callable[[], Any]] | None:
        with self._changed:
            if not self._line and not self._closed:
                self._idle += 1
                # A thread woken for work that a busy thread has taken meanwhile waits on, and keeps its connection.
                self._changed.wait_for(lambda: self._line or self._closed, _IDLE)
                self._idle -= 1
            if self._line:
                return self._line.popleft()
        close_connections()  # before it counts as ended: the caller of close() may drop the database next
        with self._changed:
            if self._line:  # meanwhile
                return self._line.popleft()
            self._threads -= 1
            self._changed.notify_all()
            return None
