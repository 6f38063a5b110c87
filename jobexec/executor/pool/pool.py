"""The worker threads."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

from jobexec import clock
from jobexec.operations.values.acquired_job import AcquiredJob

from ...runtime.connections import doubt_connections, rest_connections_outside, watch_sessions
from ...runtime.threads import Deadline, Service, spawn
from .async_admission import AsyncAdmission, AsyncRunner
from .chunk import Chunk
from .fair_queue import Batch
from .work_queue import STALL, OnRoom, WorkQueue

logger = logging.getLogger("jobexec.executor")

_IDLE_SECONDS = 5.0
#: Seconds of idleness after which a thread asks whether its connections are still usable.
_DOUBT_AFTER = 1.0
_WORKER_STOP = 5.0
_STUCK_STOP = 0.5
_CANCEL_STOP = 2.0


class Pool(Service):
    """Runs batches of jobs on ``threads`` threads; holds at most ``threads + queue_size`` jobs.

    Acquirers ask :meth:`reserve` before they lock anything, so nothing is ever rejected (Camunda needs a rejected
    jobs handler). Acquisitions, named by ``shares``, share it fairly, see
    :class:`~jobexec.executor.pool.fair_queue.FairQueue`. A job that was lost twice while it ran runs with nothing
    beside it, so that a process that dies convicts the right one
    (:class:`~jobexec.executor.pool.work_queue.WorkQueue`). A thread whose job goes on after its timeout is stuck, and
    another takes its place. ``run`` executes a batch and never raises; ``release`` gives back batches that have not
    begun.

    How long jobs take is measured (:class:`~jobexec.executor.pool.throughput.Throughput`). Tiny ones go to few threads,
    in chunks, for in one Python more threads would only get in each other's way; an idle thread takes over what is held
    up by a job that turns out not to be tiny. ``on_idle`` is called when the last job has left its thread and none
    waits.

    Jobs of async handlers go to ``async_worker``, if there is one: up to ``async_size`` batches at once, which take no
    places and no threads.
    """

    def __init__(
        self,
        threads: int,
        queue_size: int,
        run: Callable[[Batch], None],
        release: Callable[[Sequence[Batch]], None],
        shares: Sequence[str] = (),
        async_worker: AsyncRunner | None = None,
        async_size: int = 0,
    ) -> None:
        self.threads, self.capacity = threads, threads + queue_size
        self._run, self._release = run, release
        self.on_idle: Callable[[], None] = _nothing
        #: Called with batches that have ended, by then not in hand any more; None if nobody wants to know.
        self.on_left: Callable[[Sequence[Batch]], None] | None = None
        admission = None
        if async_worker is not None and async_size:
            admission = AsyncAdmission(async_worker, async_size, threads)
        self._queue = WorkQueue(threads, self.capacity, shares, admission)
        self._changed = self._queue.changed
        self._watched = False
        self._workers: list[threading.Thread] = []

    # What acquirers use.

    def reserve(self, wanted: int, on_room: OnRoom, share: str = "default") -> int:
        """How many of ``wanted`` jobs an acquisition may lock now; places are kept for them until :meth:`submit`.

        If none, ``on_room`` is called once when it is worth while to ask again.
        """
        with self._changed:
            return self._queue.reserve(wanted, on_room, share)

    def submit(self, batches: Sequence[Batch], reserved: int, share: str = "default") -> None:
        """Queue batches for which ``reserved`` places were granted; places not used are free again.

        A pool that was closed meanwhile gives them back, as it does with a job that was acquired only to see whether
        it is for the async worker.
        """
        with self._changed:
            refused = self._queue.admit(batches, reserved, share)
            waiting = self._queue.with_room()
        if refused:
            self._release(refused)
        _call(waiting)

    def load(self) -> dict[str, int]:
        """Busy and stuck threads and waiting jobs, as columns of the node's row."""
        with self._changed:
            return self._queue.load()

    def jobs_in_hand(self) -> list[AcquiredJob]:
        """All jobs that are queued or running, also behind a stuck one."""
        with self._changed:
            return self._queue.jobs()

    @property
    def done(self) -> int:
        """How many jobs have left their threads since the process began, whatever became of them."""
        return self._queue.done

    @property
    def async_jobs(self) -> int:
        """How many async handlers run, or wait for something."""
        return self._queue.async_jobs

    @property
    def empty(self) -> bool:
        """Nothing reserved, queued or running. What is stuck does not count: it has been given up."""
        with self._changed:
            return self._queue.empty

    @property
    def busy(self) -> bool:
        """Whether outcomes of jobs may come soon."""
        return self._queue.busy

    @property
    def alive(self) -> bool:
        """Whether any of its threads runs."""
        return any(worker.is_alive() for worker in self._workers)

    # Start and stop.

    def start(self) -> None:
        with self._changed:
            self._queue.closed = False
            # After a stop that did not end in time a worker may still be busy: it is one of ours again.
            while self._queue.staff < self.threads:
                self._add_worker()

    def _add_worker(self) -> None:
        self._workers = [worker for worker in self._workers if worker.is_alive()]
        self._workers.append(spawn(f"jobexec-worker-{len(self._workers) + 1}", self._work))
        self._queue.staff += 1

    def stop(self, timeout: float) -> bool:
        """Give back what has not begun and wait for what runs; for what is stuck there is no use in waiting long.

        An async handler that has not ended by then is cancelled, and its job given back.
        """
        with self._changed:
            waiting = self._queue.close()
        if waiting:
            self._release(waiting)
        with self._changed:
            drained = self._drain(timeout)
        deadline = Deadline(_WORKER_STOP if drained else 0)  # those without work end at once
        for worker in self._workers:
            worker.join(deadline.left)
        self._workers = [worker for worker in self._workers if worker.is_alive()]
        return drained

    def _drain(self, timeout: float) -> bool:
        queue = self._queue
        drained = self._changed.wait_for(lambda: not (queue.active or queue.async_jobs), timeout)
        if queue.admission is not None and queue.async_jobs:
            queue.admission.async_worker.cancel()
            self._changed.wait_for(lambda: not queue.async_jobs, _CANCEL_STOP)
            drained = not (queue.active or queue.async_jobs)
        return drained and self._changed.wait_for(lambda: not queue.stuck, _STUCK_STOP)

    # What the watch over timeouts uses.

    def give_up(self, job: AcquiredJob, most: int) -> int:
        """The thread that runs ``job`` is stuck: let another take its place, if no more than ``most`` are stuck.

        Returns how many threads are stuck now. Nothing happens if the thread has just ended its batch.
        """
        with self._changed:
            queue = self._queue
            if queue.give_up(job) and len(queue.stuck) <= most and not queue.closed:
                self._add_worker()
            stuck, waiting = len(queue.stuck), queue.with_room()
        _call(waiting)
        return stuck

    # What the async worker uses.

    def leave(self, batches: Sequence[Batch]) -> None:
        """These have left the async worker."""
        with self._changed:
            self._queue.leave_async(batches)
            idle, waiting = not self.busy, self._queue.with_room()
        if self.on_left is not None:
            self.on_left(batches)
        self._tell(idle, waiting)

    def _tell(self, idle: bool, waiting: Sequence[OnRoom]) -> None:
        """Who wants to know; without the lock."""
        if idle:
            self.on_idle()
        _call(waiting)

    # Siblings that wait for a commit.

    def park(self, siblings: Batch) -> None:
        """Keep the places of jobs that run after the outcome of the one before them is committed."""
        with self._changed:
            self._queue.park(siblings)

    def resume(self, batches: Sequence[Batch], go_on: bool = True) -> None:
        """Let parked jobs go on; a pool that was closed meanwhile gives them back. Not ``go_on``: forget them."""
        with self._changed:
            closed, found = self._queue.closed, self._queue.resume(batches, go_on)
            waiting = self._queue.with_room()
        if go_on and closed and found:
            self._release(found)
        _call(waiting)

    # What workers do.

    def _work(self) -> None:
        watch_sessions()
        while (chunk := self._take()) is not None:
            while (batch := chunk.next()) is not None:
                try:
                    self._run(batch)
                except BaseException:  # no worker dies, whatever a project's logging filters or signals do
                    with suppress(Exception):
                        logger.exception("Running a batch of %d jobs failed", len(batch))
                if self.on_left is not None:
                    chunk.leave()
                    self.on_left([batch])
            if self._done(chunk):
                return

    def _take(self) -> Chunk | None:
        fresh, queue = True, self._queue  # it has just ended something, and goes on at once
        idle_since = 0.0
        with self._changed:
            while (chunk := queue.next(fresh)) is None:
                if queue.closed:
                    queue.staff -= 1
                    return None
                if fresh:
                    fresh, idle_since = False, clock.monotonic()
                self._wait()
            if not self._watched and queue.to_be_watched:
                self._changed.notify()  # who has watched until now has work itself
        if not fresh and clock.monotonic() - idle_since >= _DOUBT_AFTER:
            doubt_connections()
        return chunk

    def _wait(self) -> None:
        """Until somebody calls, or until it is time to see whether the others are held up: one thread watches that."""
        if not self._watched and self._queue.to_be_watched:
            self._watched = True
            try:
                self._changed.wait(STALL)
            finally:
                self._watched = False
        elif not self._changed.wait(_IDLE_SECONDS):
            rest_connections_outside(self._changed)

    def _done(self, chunk: Chunk) -> bool:
        """Whether the thread was stuck and another has taken its place; if none has, it goes on itself."""
        with self._changed:
            replaced = self._queue.end(chunk)
            idle, waiting = not self.busy, self._queue.with_room()
        self._tell(idle, waiting)
        return replaced


def _nothing() -> None:
    """Nobody wants to know."""


def _call(waiting: Sequence[OnRoom]) -> None:
    for on_room in waiting:
        try:
            on_room()
        except Exception:
            logger.exception("An acquirer could not be woken up after a thread became free")
