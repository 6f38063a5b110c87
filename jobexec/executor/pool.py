"""A bounded queue and the worker threads."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from uuid import UUID

from jobexec.operations.work import AcquiredJob

from .connections import rest_connections
from .service import Deadline, Service, spawn

logger = logging.getLogger("jobexec.executor")

Batch = list[AcquiredJob]
_IDLE_SECONDS = 5.0
_WORKER_STOP = 5.0


class Pool(Service):
    """Runs batches of jobs on ``threads`` threads; holds at most ``threads + queue_size`` jobs.

    Acquirers ask :meth:`reserve` before they lock anything, so nothing is ever rejected (Camunda needs a rejected
    jobs handler). A job with lost runs is a suspect: no two suspects run at the same time, so that a process that
    dies convicts only one. ``run`` executes a batch and never raises; ``release`` gives back batches that have not
    begun.
    """

    def __init__(
        self,
        threads: int,
        queue_size: int,
        run: Callable[[Batch], None],
        release: Callable[[Sequence[Batch]], None],
    ) -> None:
        self.threads, self.capacity = threads, threads + queue_size
        self._run, self._release = run, release
        self._changed = threading.Condition()
        self._queue: deque[Batch] = deque()
        self._suspects: deque[Batch] = deque()
        self._suspect_runs = False
        self._active: list[Batch] = []
        self._reserved = self._queued = self._running = 0
        #: How many jobs have left their threads since the process began, whatever became of them.
        self.done = 0
        self._refused: list[Callable[[], None]] = []
        self._closed = True
        self._workers: list[threading.Thread] = []

    # What acquirers use.

    def reserve(self, wanted: int, on_room: Callable[[], None]) -> int:
        """How many of ``wanted`` jobs may be acquired now; they are kept free until :meth:`submit`.

        If none, ``on_room`` is called once when it is worth while to ask again.
        """
        with self._changed:
            free = 0 if self._closed else self.capacity - self._reserved - self._queued - self._running
            granted = max(0, min(wanted, free))
            self._reserved += granted
            if not granted and on_room not in self._refused:
                self._refused.append(on_room)
            return granted

    def submit(self, batches: Sequence[Batch], reserved: int) -> None:
        """Queue batches for which ``reserved`` places were granted; places not used are free again.

        A pool that was closed meanwhile gives them back.
        """
        with self._changed:
            self._reserved -= reserved
            accepted = not self._closed
            if accepted:
                self._queue.extend(batches)
                self._queued += sum(map(len, batches))
                self._changed.notify(len(batches))
            waiting = self._with_room()
        if not accepted and batches:
            self._release(batches)
        _call(waiting)

    def load(self) -> dict[str, int]:
        """Busy threads and waiting jobs, as columns of the node's row."""
        with self._changed:
            return {"busy_threads": len(self._active), "queued_jobs": self._queued}

    def in_hand(self) -> set[UUID]:
        """The ids of all jobs that are queued or running."""
        with self._changed:
            return {job.id for batch in (*self._queue, *self._suspects, *self._active) for job in batch}

    @property
    def empty(self) -> bool:
        """Nothing reserved, queued or running."""
        with self._changed:
            return not (self._reserved or self._queued or self._running)

    @property
    def alive(self) -> bool:
        """Whether any of its threads runs."""
        return any(worker.is_alive() for worker in self._workers)

    # Start and stop.

    def start(self) -> None:
        with self._changed:
            self._closed = False
        # After a stop that did not end in time a worker may still be busy: it is one of ours again.
        self._workers = [worker for worker in self._workers if worker.is_alive()]
        for number in range(len(self._workers) + 1, self.threads + 1):
            self._workers.append(spawn(f"jobexec-worker-{number}", self._work))

    def stop(self, timeout: float) -> bool:
        """Give back what has not begun and wait for what runs."""
        with self._changed:
            self._closed = True
            waiting = [*self._queue, *self._suspects]
            self._queue.clear()
            self._suspects.clear()
            self._queued = 0
            self._changed.notify_all()
        if waiting:
            self._release(waiting)
        with self._changed:
            drained = self._changed.wait_for(lambda: not self._active, timeout)
        deadline = Deadline(_WORKER_STOP if drained else 0)  # those without work end at once
        for worker in self._workers:
            worker.join(deadline.left)
        self._workers = [worker for worker in self._workers if worker.is_alive()]
        return drained

    # What workers do.

    def _work(self) -> None:
        while (batch := self._take()) is not None:
            try:
                self._run(batch)
            except BaseException:  # no worker dies, whatever a project's logging filters or signals do
                logger.exception("A batch of %d jobs could not be run to its end", len(batch))
            finally:
                self._done(batch)

    def _take(self) -> Batch | None:
        with self._changed:
            while (batch := self._next()) is None:
                if self._closed:
                    return None
                if not self._changed.wait(_IDLE_SECONDS):
                    self._rest_connections()
            self._queued -= len(batch)
            self._running += len(batch)
            self._active.append(batch)
            return batch

    def _next(self) -> Batch | None:
        if self._suspects and not self._suspect_runs:
            self._suspect_runs = True
            return self._suspects.popleft()
        while self._queue:
            batch = self._queue.popleft()
            if not _is_suspect(batch):
                return batch
            if not self._suspect_runs:
                self._suspect_runs = True
                return batch
            self._suspects.append(batch)
        return None

    def _rest_connections(self) -> None:
        # Waiting holds the condition's lock again; closing a connection must not keep others from the queue.
        self._changed.release()
        try:
            rest_connections()
        finally:
            self._changed.acquire()

    def _done(self, batch: Batch) -> None:
        with self._changed:
            self._running -= len(batch)
            self.done += len(batch)
            self._active = [active for active in self._active if active is not batch]
            if self._closed:
                self._changed.notify_all()
            if _is_suspect(batch):
                self._suspect_runs = False
                self._changed.notify()
            waiting = self._with_room()
        _call(waiting)

    def _with_room(self) -> list[Callable[[], None]]:
        """Whom to tell that there is room: all who were refused, once the queue is half empty."""
        full = self._reserved + self._queued > max(0, self.capacity - self.threads) // 2
        if full or self._closed:
            return []
        waiting, self._refused = self._refused, []
        return waiting


def _call(waiting: Sequence[Callable[[], None]]) -> None:
    for on_room in waiting:
        try:
            on_room()
        except Exception:
            logger.exception("An acquirer could not be told that there is room")


def _is_suspect(batch: Batch) -> bool:
    return any(job.lost_runs for job in batch)
