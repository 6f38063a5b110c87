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
from .fair_queue import Batch, Kind
from .work_queue import STALL, OnRoom, WorkQueue

logger = logging.getLogger("jobexec.executor")

_IDLE_SECONDS = 5.0
#: Seconds for which promoted jobs may wait for a thread here, about as long as a promotion of many takes.
_PROMOTED = 0.02
#: Seconds of idleness after which a thread checks whether its connections are still usable.
_DOUBT_AFTER = 1.0
_WORKER_STOP = 5.0
_STUCK_STOP = 0.5
_CANCEL_STOP = 2.0


class Pool(Service):
    """Runs batches of jobs on ``threads`` threads; holds at most ``threads + queue_size`` jobs.

    Acquirers call :meth:`reserve` before they lock anything, so nothing is ever rejected (Camunda needs a handler for
    rejected jobs). Acquisitions, named by ``shares``, share it fairly, see
    :class:`~jobexec.executor.pool.fair_queue.FairQueue`. A job that was lost twice while it ran runs with nothing
    beside it, so that the death of the process convicts the right job
    (:class:`~jobexec.executor.pool.work_queue.WorkQueue`). A thread whose job goes on after its timeout is stuck, and
    another thread replaces it. ``run`` executes a batch and never raises; ``release`` unlocks batches that have not
    started.

    The duration of jobs is measured (:class:`~jobexec.executor.pool.throughput.Throughput`). Tiny jobs go to few
    threads, in chunks, because within one Python process more threads would only obstruct each other; an idle thread
    takes over batches held up by a job that turns out not to be tiny. ``on_idle`` is called when the last job has left
    its thread and none waits.

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
        #: Runs a batch of a chunk whose batches share transactions.
        self._run_shared: Callable[[Batch, Chunk], None] = lambda batch, chunk: run(batch)
        #: Called with the batches of a chunk whose handler looks ahead, before the first of them.
        self._look_ahead: Callable[[Sequence[Batch]], None] = lambda batches: None
        #: Called with batches that have ended and are no longer in hand; None if unused.
        self.on_left: Callable[[Sequence[Batch]], None] | None = None
        admission = None
        if async_worker is not None and async_size:
            admission = AsyncAdmission(async_worker, async_size, threads)
        self._queue = WorkQueue(threads, self.capacity, shares, admission)
        self._changed = self._queue.changed
        self._workers: list[threading.Thread] = []

    # Called by acquirers.

    def reserve(self, wanted: int, on_room: OnRoom, share: str = "default") -> int:
        """How many of ``wanted`` jobs an acquisition may lock now; places are reserved for them until :meth:`submit`.

        If none, ``on_room`` is called once when asking again is worthwhile.
        """
        with self._changed:
            return self._queue.reserve(wanted, on_room, share)

    def submit(self, batches: Sequence[Batch], reserved: int, share: str = "default") -> None:
        """Queue batches for which ``reserved`` places were granted; unused places become free.

        A pool that was closed meanwhile releases them, as it does with a job for threads that was acquired only to see
        whether it is for the async worker.
        """
        with self._changed:
            refused = self._queue.admit(batches, reserved, share)
            waiting = self._queue.with_room()
        if refused:
            self._release(refused)
        _call(waiting)

    def distinguish(
        self,
        kind_of: Callable[[Batch], Kind],
        run_shared: Callable[[Batch, Chunk], None],
        look_ahead: Callable[[Sequence[Batch]], None],
    ) -> None:
        """Treat batches by their kind. Must be called before the start; ``look_ahead`` never raises."""
        self._queue.fair_queue.kind_of, self._run_shared, self._look_ahead = kind_of, run_shared, look_ahead

    # Called for follow-ups.

    def spare(self, handler_type: str, atomic: bool) -> int:
        """How many more jobs of a handler would begin at once; less than 1 if others wait for a thread."""
        with self._changed:
            return self._queue.spare(handler_type, atomic)

    @property
    def most_spare(self) -> int:
        """How many more jobs of any handler would begin at once."""
        with self._changed:
            return self._queue.most_spare

    @property
    def soon(self) -> int:
        """How many jobs one thread does while the next are promoted: none, unless they are short."""
        return self._queue.throughput.within(_PROMOTED)

    @property
    def none_waits(self) -> bool:
        """Whether no job waits for a thread."""
        with self._changed:
            return self._queue.none_waits

    def offer(self, batches: Sequence[Batch], share: str) -> Sequence[Batch]:
        """Queue batches without a reservation; returns those that the caller must release."""
        with self._changed:
            return self._queue.offer(batches, share)

    def join(self, batch: Batch, jobs: Batch) -> bool:
        """Let jobs join a batch that runs, to run after it; False if they cannot."""
        with self._changed:
            return self._queue.join(batch, jobs)

    def withdraw(self, unwanted: Callable[[AcquiredJob], bool]) -> Sequence[Batch]:
        """Remove and return batches that have not started, by their first jobs; the caller must release them."""
        with self._changed:
            found = self._queue.withdraw(lambda batch: unwanted(batch[0]))
            waiting = self._queue.with_room()
        if found and self.on_left is not None:
            self.on_left(found)
        _call(waiting)
        return found

    def load(self) -> dict[str, int]:
        """Busy and stuck threads and waiting jobs, as columns of the node's row."""
        with self._changed:
            return self._queue.load()

    def jobs_in_hand(self) -> list[AcquiredJob]:
        """All jobs that are queued or running, including those behind a stuck one."""
        with self._changed:
            return self._queue.jobs()

    @property
    def done(self) -> int:
        """How many jobs have left their threads since the process started, whatever their outcome."""
        return self._queue.done

    @property
    def async_jobs(self) -> int:
        """How many async handlers are running or waiting."""
        return self._queue.async_jobs

    @property
    def empty(self) -> bool:
        """Nothing is reserved, queued or running. Stuck jobs do not count: they have been given up."""
        with self._changed:
            return self._queue.empty

    @property
    def busy(self) -> bool:
        """Whether jobs may produce outcomes soon."""
        return self._queue.busy

    @property
    def alive(self) -> bool:
        """Whether any of its threads is alive."""
        return any(worker.is_alive() for worker in self._workers)

    def ends_within(self, seconds: float) -> float:
        """About how many jobs end in this time; may be read without the lock."""
        return self._queue.ends_within(seconds)

    # Start and stop.

    def start(self) -> None:
        with self._changed:
            self._queue.closed = False
            # After a stop that did not end in time a worker may still be busy: it belongs to the pool again.
            while self._queue.staff < self.threads:
                self._add_worker()

    def _add_worker(self) -> None:
        self._workers = [worker for worker in self._workers if worker.is_alive()]
        self._workers.append(spawn(f"jobexec-worker-{len(self._workers) + 1}", self._work))
        self._queue.staff += 1

    def stop(self, timeout: float) -> bool:
        """Release batches that have not started and wait for running ones; for stuck ones only briefly.

        An async handler that has not ended by then is cancelled, and its job released.
        """
        with self._changed:
            waiting = self._queue.close()
        if waiting:
            self._release(waiting)
        with self._changed:
            drained = self._drain(timeout)
        deadline = Deadline(_WORKER_STOP if drained else 0)  # threads without work end at once
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

    # Called by the timeout watch.

    def give_up(self, job: AcquiredJob, most: int) -> int:
        """The thread that runs ``job`` is stuck: replace it by another, if no more than ``most`` are stuck.

        Returns how many threads are stuck now. Nothing happens if the thread has just ended its batch.
        """
        with self._changed:
            queue = self._queue
            if queue.give_up(job) and len(queue.stuck) <= most and not queue.closed:
                self._add_worker()
            stuck, waiting = len(queue.stuck), queue.with_room()
        _call(waiting)
        return stuck

    # Called by the async worker.

    def leave(self, batches: Sequence[Batch]) -> None:
        """Batches have left the async worker."""
        with self._changed:
            self._queue.leave_async(batches)
            idle, waiting = not self.busy, self._queue.with_room()
        if self.on_left is not None:
            self.on_left(batches)
        self._tell(idle, waiting)

    def _tell(self, idle: bool, waiting: Sequence[OnRoom]) -> None:
        """Call the callbacks, without the lock."""
        if idle:
            self.on_idle()
        _call(waiting)

    # Siblings that wait for a commit.

    def park(self, siblings: Batch) -> None:
        """Keep the places of jobs that run after the outcome of the one before them is committed."""
        with self._changed:
            self._queue.park(siblings)

    def resume(self, batches: Sequence[Batch], go_on: bool = True) -> None:
        """Let parked jobs go on; a pool closed meanwhile releases them. Without ``go_on``, forget them."""
        with self._changed:
            closed, found = self._queue.closed, self._queue.resume(batches, go_on)
            waiting = self._queue.with_room()
        if go_on and closed and found:
            self._release(found)
        _call(waiting)

    # Run by the workers.

    def _work(self) -> None:
        watch_sessions()
        while (chunk := self._take()) is not None:
            if chunk.kind is Kind.AHEAD:
                self._look_ahead(chunk.batches())
            shares = chunk.kind is Kind.SHARED
            while (batch := chunk.next()) is not None:
                try:
                    if shares:
                        self._run_shared(batch, chunk)
                    else:
                        self._run(batch)
                except BaseException:  # no worker dies of a project's logging filters or signal receivers
                    with suppress(Exception):
                        logger.exception("Running a batch of %d jobs failed", len(batch))
                if self.on_left is not None:
                    self.on_left(chunk.leave())
            if self._done(chunk):
                return

    def _take(self) -> Chunk | None:
        fresh, queue = True, self._queue  # it has just ended a chunk, and goes on at once
        idle_since = 0.0
        with self._changed:
            while (chunk := queue.next(fresh)) is None:
                if queue.closed:
                    queue.staff -= 1
                    return None
                if fresh:
                    fresh, idle_since = False, clock.monotonic()
                self._wait()
            if not queue.watched and queue.to_be_watched:
                self._changed.notify()  # the thread that watched until now has work itself
        if not fresh and clock.monotonic() - idle_since >= _DOUBT_AFTER:
            doubt_connections()
        return chunk

    def _wait(self) -> None:
        """Wait for a notification, or until it is time to check for held up batches, which one thread does."""
        queue = self._queue
        if not queue.watched and queue.to_be_watched:
            queue.watched = True
            try:
                self._changed.wait(STALL)
            finally:
                queue.watched = False
        elif not self._changed.wait(_IDLE_SECONDS):
            rest_connections_outside(self._changed)

    def _done(self, chunk: Chunk) -> bool:
        """Whether the thread was stuck and has been replaced; if not, it goes on itself."""
        with self._changed:
            replaced = self._queue.end(chunk)
            idle, waiting = not self.busy, self._queue.with_room()
        self._tell(idle, waiting)
        return replaced


def _nothing() -> None:
    """Do nothing: the default of ``on_idle``."""


def _call(waiting: Sequence[OnRoom]) -> None:
    for on_room in waiting:
        try:
            on_room()
        except Exception:
            logger.exception("An acquirer could not be woken up after a thread became free")
