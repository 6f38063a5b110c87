"""Where requests wait for jobs: one hub per process and database."""

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
from .async_places import AsyncPlace
from .places import Queue, ThreadPlace
from .shares import Shares
from .watch import Watch

T = TypeVar("T")


def always() -> bool:
    """Nobody can tell that this one has gone."""
    return True


class Hub:
    """Wakes those who wait for jobs of an engine. Made by :func:`of`; nothing runs before somebody waits."""

    def __init__(self, using: str) -> None:
        self.using = using
        self.queue = Queue(self._entered)
        self.database_threads = DatabaseThreads(f"jobexec-gateway-{using}")
        self._lock = threading.Lock()
        self._watch: Watch | None = None
        self._threads = Shares(lambda: get_settings().gateway_max_waiters_in_threads)
        self._coroutines = Shares(lambda: get_settings().gateway_max_waiters)

    # To wait.

    def waiting(
        self, types: Collection[str], *, kind: Hashable = None, alive: Callable[[], bool] = always
    ) -> AsyncPlace:
        """A place in the queue for a coroutine: enter it with ``with``, look for jobs, and then ``await place.wait()``.

        In this order no job that comes meanwhile is missed; see :class:`~jobexec.gateways.long_polling.places.Place`.
        """
        return AsyncPlace(self.queue, types, kind, alive)

    def held(self, client: str) -> AbstractContextManager[None]:
        """A request of a client that is held while it waits, without a thread. Raises TooManyWaiters."""
        return self._coroutines.place(client)

    @contextmanager
    def waiting_in_thread(
        self, types: Collection[str], *, kind: Hashable = None, alive: Callable[[], bool] = always, client: str = ""
    ) -> Iterator[ThreadPlace]:
        """The same for a thread. Raises TooManyWaiters if too many threads wait already, all or those of the client."""
        with self._threads.place(client), ThreadPlace(self.queue, types, kind, alive) as place:
            yield place

    async def wait(self, types: Collection[str], until: float, alive: Callable[[], bool] = always) -> bool:
        """Wait for word of jobs of one of these types, until a moment of ``time.monotonic()``; whether it came.

        A caller that looked for jobs before cannot know whether some came in between:
        :func:`~jobexec.gateways.long_polling.poll` does.
        """
        with self.waiting(types, alive=alive) as place:
            return await place.wait(until)

    def wait_in_thread(self, types: Collection[str], until: float, alive: Callable[[], bool] = always) -> bool:
        """The same for a thread. Raises TooManyWaiters."""
        with self.waiting_in_thread(types, alive=alive) as place:
            return place.wait(until)

    # To work.

    async def run(self, work: Callable[..., T], *arguments: Any, **named: Any) -> T:
        """Call a function that uses the database, in one of the hub's few threads. Raises Overloaded."""
        return await asyncio.wrap_future(self.database_threads.submit(lambda: work(*arguments, **named)))

    # To tell.

    def expect(self, type: str, moment: datetime) -> None:
        """A job of this type becomes available then; a gateway that has set a deadline or a back-off tells its hub."""
        watch = self._watch
        if watch is not None:
            watch.expect(type, moment)

    def notify(self, using: str, types: Collection[str]) -> None:
        """Jobs of these types (of any, if none is named) were committed on a database in this process."""
        watch = self._watch
        if using == self.using and watch is not None:
            watch.tell(types)

    def close(self, timeout: float = 5.0) -> None:
        """Answer all who wait, and end; whoever comes later is answered at once."""
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
        """Whether this watch may end, because nobody waits."""
        with self._lock:
            if self.queue.types() or self._watch is not watch:
                return False
            self._watch = None
            remove_worker_listener(self.notify)
            return True


_hubs: dict[str, Hub] = {}
_hubs_lock = threading.Lock()


def of(using: str) -> Hub:
    """The hub of this process for the engine on this database. Raises InvalidSettings if it is no engine."""
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
    """Close every hub of this process: at its end, and between tests."""
    with _hubs_lock:
        hubs = list(_hubs.values())
        _hubs.clear()
    for hub in hubs:
        hub.close(timeout)


def _after_fork() -> None:
    """The threads, and whoever waits, are the parent's."""
    global _hubs_lock
    _hubs_lock = threading.Lock()
    for hub in _hubs.values():
        remove_worker_listener(hub.notify)
    _hubs.clear()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_after_fork)
