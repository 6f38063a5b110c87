"""A thread for the calls that async handlers make to Django's ORM."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextlib import suppress
from typing import Any

from django.db.transaction import TransactionManagementError

from ...runtime.connections import clean_connections, prepare_connections, rest_connections, watch_sessions
from ...runtime.threads import is_alive, spawn

logger = logging.getLogger("jobexec.executor")

_IDLE_SECONDS = 5.0


class DatabaseThread(Executor):
    """A daemon thread that runs one call after another; the first call starts it.

    Between two calls its connections are treated as a worker's are between two jobs. The next call may be another
    job's, so a transaction that a call leaves open is rolled back, and the call raises TransactionManagementError.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._calls: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self._closed = False

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run the function in the thread. Raises RuntimeError after :meth:`shutdown`."""
        future: Future[Any] = Future()
        with self._starting:
            if self._closed:
                raise RuntimeError("cannot schedule new futures after shutdown")
            self._calls.put((future, lambda: function(*args, **kwargs)))
            if self._thread is None:
                self._thread = spawn(self._name, self._work)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the thread after the calls already submitted; ``cancel_futures`` cancels all but the running one."""
        with self._starting:
            self._closed = True
        if cancel_futures:
            with suppress(queue.Empty):
                while (call := self._calls.get_nowait()) is not None:
                    call[0].cancel()
        self._calls.put(None)
        if wait:
            self.join(None)

    def join(self, timeout: float | None) -> bool:
        """Wait for the thread to end; returns whether it has."""
        if self._thread is not None:
            self._thread.join(timeout)
        return not is_alive(self._thread)

    def _work(self) -> None:
        watch_sessions()
        while (call := self._next()) is not None:
            _answer(*call)
            del call  # do not keep its arguments alive while this thread waits

    def _next(self) -> tuple[Future[Any], Callable[[], Any]] | None:
        try:
            return self._calls.get(timeout=_IDLE_SECONDS)
        except queue.Empty:
            rest_connections()
            return self._calls.get()


def _answer(future: Future[Any], call: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        prepare_connections()
        result = call()
    except BaseException as error:
        clean_connections()
        future.set_exception(error)
        return
    left = clean_connections()
    if left:
        message = (
            f"A call from an async handler left a transaction open on {', '.join(left)}; it was rolled back. "
            "Begin and end it within one function, or make the job atomic."
        )
        future.set_exception(TransactionManagementError(message))
    else:
        future.set_result(result)
