"""Runs async handlers, thousands at once, on one event loop in one thread."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import cycle

from asgiref.sync import SyncToAsync, ThreadSensitiveContext

from ...runtime.threads import Deadline, Service, is_alive, spawn
from ..pool.fair_queue import Batch
from ..run.async_execution import AsyncHost, execute_batch_async
from .database_thread import DatabaseThread
from .watchdog import LoopWatchdog

logger = logging.getLogger("jobexec.executor")

_FINISH = 1.0


class AsyncWorker(Service):
    """One event loop for the async handlers of a process; the first handler starts its thread.

    A handler that waits costs a few KiB and no thread. What it calls through ``sync_to_async``, and so Django's ORM,
    runs in one of ``threads`` threads with a connection each, always the same thread for one job. The pool limits how
    many handlers run at once; ``leave`` reports to it the ones that have ended.
    """

    def __init__(self, host: AsyncHost, leave: Callable[[Sequence[Batch]], None], threads: int) -> None:
        self._host, self._leave, self._threads = host, leave, threads
        self._track: LoopThread | None = None

    def begin(self, batches: Sequence[Batch]) -> None:
        """Run these batches; returns at once."""
        if self._track is None:
            self._track = LoopThread(self._host, self._leave, self._threads)
        self._track.begin(batches)

    def cancel(self) -> None:
        """Cancel all handlers and release their jobs: the executor cannot wait any longer."""
        if self._track is not None:
            self._track.cancel()

    def start(self) -> None:
        """Nothing to do before the first job."""

    def stop(self, timeout: float) -> bool:
        """End the loop and its threads; handlers that still run are dropped, and recovery releases their jobs."""
        track, self._track = self._track, None
        return track is None or track.stop(timeout)


class LoopThread:
    """The async worker from its first job to its stop: a loop, its thread, and the ORM threads."""

    def __init__(self, host: AsyncHost, leave: Callable[[Sequence[Batch]], None], threads: int) -> None:
        self._host, self._leave = host, leave
        self._orm_threads = [DatabaseThread(f"jobexec-async-orm-{number + 1}") for number in range(threads)]
        self._contexts = cycle([_context(desk) for desk in self._orm_threads])
        self._new: deque[Batch] = deque()
        self._called = False
        self._tasks: dict[asyncio.Task[None], Batch] = {}
        self._ended: list[Batch] = []
        self.cancelling = False
        self.dropped = False
        self._loop = asyncio.new_event_loop()
        self._thread = spawn("jobexec-async", self._run)
        self._watch = LoopWatchdog(self._loop, self._thread, lambda: bool(self._tasks or self._new))
        self._watch.start()

    # For other threads.

    def begin(self, batches: Sequence[Batch]) -> None:
        self._new.extend(batches)
        self._watch.wake()
        if not self._called:
            self._called = True
            self._loop.call_soon_threadsafe(self._begin_new)

    def cancel(self) -> None:
        self._loop.call_soon_threadsafe(self._cancel_all)

    def stop(self, timeout: float) -> bool:
        deadline = Deadline(timeout)
        self._watch.ask_to_stop()
        with suppress(RuntimeError):  # it is already closed
            self._loop.call_soon_threadsafe(self._loop.stop)
        for desk in self._orm_threads:
            desk.shutdown(wait=False, cancel_futures=True)
        self._thread.join(deadline.left)
        stopped = [desk.join(deadline.left) for desk in self._orm_threads]
        return all([self._watch.stop(deadline.left), not is_alive(self._thread), *stopped])

    # In the loop's thread.

    def _run(self) -> None:
        try:
            self._loop.run_forever()
            self.dropped = True
            self._finish()
        finally:
            self._leave([*self._ended, *self._tasks.values(), *self._new])

    def _finish(self) -> None:
        """Give handlers that were not cancelled before, and asynchronous generators, a chance to end properly."""
        for task in self._tasks:
            task.cancel()
        with suppress(Exception):
            self._loop.run_until_complete(asyncio.wait_for(self._loop.shutdown_asyncgens(), _FINISH))
        # Whatever still runs after this is dropped on purpose.
        self._loop.set_exception_handler(lambda loop, context: None)
        self._loop.close()

    def _begin_new(self) -> None:
        self._called = False  # first: a batch that arrives after this line schedules another call
        while self._new:
            batch = self._new.popleft()
            # A fresh context for each: no job sees the variables of another.
            context, name = next(self._contexts).copy(), batch[0].handler_type
            task = self._loop.create_task(self._execute(batch), name=name, context=context)
            self._tasks[task] = batch
            task.add_done_callback(self._end)

    async def _execute(self, batch: Batch) -> None:
        try:
            await execute_batch_async(batch, self._host, self)
        except BaseException:  # raised by a project's logging filters or signal receivers
            with suppress(Exception):
                logger.exception("Running a batch of %d async jobs failed", len(batch))

    def _end(self, task: asyncio.Task[None]) -> None:
        if not self._ended:
            self._loop.call_soon(self._leave_all)  # jobs that end in the same turn of the loop leave together
        self._ended.append(self._tasks.pop(task))

    def _leave_all(self) -> None:
        ended, self._ended = self._ended, []
        self._leave(ended)

    def _cancel_all(self) -> None:
        self.cancelling = True
        if self._tasks:
            logger.warning("%d async jobs did not finish in time; they are cancelled and released", len(self._tasks))
        for task in self._tasks:
            task.cancel()


def _context(desk: DatabaseThread) -> contextvars.Context:
    """An empty context in which ``sync_to_async`` uses this thread."""
    sensitive = ThreadSensitiveContext()
    SyncToAsync.context_to_thread_executor[sensitive] = desk
    context = contextvars.Context()
    context.run(SyncToAsync.thread_sensitive_context.set, sensitive)
    return context
