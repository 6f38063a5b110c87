"""The hub where requests wait for jobs, one per process and database."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Collection, Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from typing import Any, TypeVar

from jobexec.conf import get_settings
from jobexec.operations.notify.wake_workers import add_worker_listener, remove_worker_listener

from ...runtime.database_threads import DatabaseThreads
from ..completions import Completions
from .async_places import AsyncPlace
from .places import Queue, ThreadPlace
from .shares import Shares
from .watch import Watch

T = TypeVar("T")


def always() -> bool:
    """The default for ``alive``: a disconnect cannot be detected."""
    return True


class Hub:
    """Wakes requests that wait for jobs of an engine. Created by :func:`of`; no thread runs before a request waits."""

    def __init__(self, using: str) -> None:
        self.using = using
        self.queue = Queue(self._entered)
        self.database_threads = DatabaseThreads(f"jobexec-gateway-{using}")
        self.completions = Completions(using, self.database_threads)
        self._lock = threading.Lock()
        self._watch: Watch | None = None
        self._threads = Shares(lambda: get_settings().gateway_max_waiters_in_threads)
        self._coroutines = Shares(lambda: get_settings().gateway_max_waiters)

    # Waiting.

    def waiting(
        self, types: Collection[str], *, kind: Hashable = None, alive: Callable[[], bool] = always
    ) -> AsyncPlace:
        """A place in the queue for a coroutine: enter it with ``with``, look for jobs, and then ``await place.wait()``.

        In this order no job that arrives meanwhile is missed; see :class:`~jobexec.gateways.long_polling.places.Place`.
        """
        return AsyncPlace(self.queue, types, kind, alive)

    def held(self, client: str) -> AbstractContextManager[None]:
        """Reserve a place for a client's request that waits without a thread. Raises TooManyWaiters."""
        return self._coroutines.place(client)

    @contextmanager
    def waiting_in_thread(
        self, types: Collection[str], *, kind: Hashable = None, alive: Callable[[], bool] = always, client: str = ""
    ) -> Iterator[ThreadPlace]:
        """The same for a thread. Raises TooManyWaiters if too many threads wait already, of all clients or this one."""
        with self._threads.place(client), ThreadPlace(self.queue, types, kind, alive) as place:
            yield place

    # Database work.

    async def run(self, work: Callable[..., T], *arguments: Any, **named: Any) -> T:
        """Call a function that uses the database in one of the hub's few threads. Raises Overloaded."""
        return await asyncio.wrap_future(self.database_threads.submit(lambda: work(*arguments, **named)))

    # Notifications.

    def expect(self, type: str, moment: datetime) -> None:
        """Announce when a job of this type becomes available, after the gateway has set a deadline or a back-off."""
        watch = self._watch
        if watch is not None:
            watch.expect(type, moment)

    def notify(self, using: str, types: Collection[str]) -> None:
        """Announce that this process committed jobs of these types (of any type if ``types`` is empty)."""
        watch = self._watch
        if using == self.using and watch is not None:
            watch.tell(types)

    def close(self, timeout: float = 5.0) -> None:
        """Release all waiting requests and stop; later requests return immediately."""
        self.queue.close()
        remove_worker_listener(self.notify)
        with self._lock:
            watch, self._watch = self._watch, None
        if watch is not None:
            watch.stop(timeout)
        self.database_threads.close(timeout)

    def _entered(self, new: Collection[str]) -> None:
        with self._lock:
            if self.queue.closed:
                return
            if self._watch is None:
                add_worker_listener(self.notify)
                self._watch = Watch(self.using, self.queue, self._retire)
                self._watch.start()
            watch = self._watch
        watch.ask_about(new)

    def _retire(self, watch: Watch) -> bool:
        """Return whether this watch may end because no request waits."""
        with self._lock:
            if self.queue.types() or self._watch is not watch:
                return False
            self._watch = None
            remove_worker_listener(self.notify)
            return True


_hubs: dict[str, Hub] = {}
_hubs_lock = threading.Lock()


def of(using: str) -> Hub:
    """Return this process's hub for the engine on this database. Raises InvalidSettings if there is no such engine."""
    hub = _hubs.get(using)
    if hub is not None and not hub.queue.closed:
        return hub
    get_settings().engine(using)
    with _hubs_lock:
        hub = _hubs.get(using)
        if hub is None or hub.queue.closed:
            hub = _hubs[using] = Hub(using)
        return hub


def close_all(timeout: float = 5.0) -> None:
    """Close every hub of this process, at its end and between tests."""
    with _hubs_lock:
        hubs = list(_hubs.values())
        _hubs.clear()
    for hub in hubs:
        hub.close(timeout)


def answer_all() -> None:
    """Answer all waiting requests of this process with nothing, because its server shuts down. Does not block."""
    for hub in tuple(_hubs.values()):
        hub.queue.close()


def _after_fork() -> None:
    """Drop the hubs: their threads and waiting requests belong to the parent process."""
    global _hubs_lock
    _hubs_lock = threading.Lock()
    for hub in _hubs.values():
        remove_worker_listener(hub.notify)
    _hubs.clear()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_after_fork)
