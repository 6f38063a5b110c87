"""A bounded queue and the worker threads."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

from jobexec.operations.work import ALONE_FROM, AcquiredJob

from .connections import rest_connections_outside
from .service import Deadline, Service, spawn
from .shares import Batch, Shares, is_suspect

logger = logging.getLogger("jobexec.executor")

_IDLE_SECONDS = 5.0
_WORKER_STOP = 5.0
_STUCK_STOP = 0.5


class Pool(Service):
    """Runs batches of jobs on ``threads`` threads; holds at most ``threads + queue_size`` jobs.

    Acquirers ask :meth:`reserve` before they lock anything, so nothing is ever rejected (Camunda needs a rejected
    jobs handler). ``engines`` share it fairly, see :class:`~jobexec.executor.shares.Shares`. A job with lost runs is a
    suspect: no two suspects run at the same time, and one that was lost while it ran runs with nothing beside it, so
    that a process that dies convicts the right one. A thread whose job goes on after its timeout is stuck, and another
    takes its place. ``run`` executes a batch and never raises; ``release`` gives back batches that have not begun.
    """

    def __init__(
        self,
        threads: int,
        queue_size: int,
        run: Callable[[Batch], None],
        release: Callable[[Sequence[Batch]], None],
        engines: Sequence[str] = (),
    ) -> None:
        self.threads, self.capacity = threads, threads + queue_size
        self._run, self._release = run, release
        self._changed = threading.Condition()
        self._shares = Shares(threads, self.capacity, engines)
        self._suspect_runs = False
        self._lone: Batch | None = None  # waits until all threads are idle, or runs
        self._active: list[Batch] = []
        self._stuck: list[Batch] = []
        self._refused: dict[str, Callable[[], None]] = {}
        self._closed = True
        self._workers: list[threading.Thread] = []
        self._staff = 0  # threads that take batches, now or when they have ended theirs; not those that are stuck
        #: How many jobs have left their threads since the process began, whatever became of them.
        self.done = 0

    # What acquirers use.

    def reserve(self, wanted: int, on_room: Callable[[], None], using: str = "default") -> int:
        """How many of ``wanted`` jobs of an engine may be acquired now; they are kept free until :meth:`submit`.

        If none, ``on_room`` is called once when it is worth while to ask again. None are granted while a job waits to
        run alone or does: whatever was acquired would wait here for its end, and other nodes could not have it.
        """
        with self._changed:
            granted = 0 if self._closed or self._lone is not None else self._shares.reserve(using, wanted)
            if not granted:
                self._refused[using] = on_room
            return granted

    def submit(self, batches: Sequence[Batch], reserved: int, using: str = "default") -> None:
        """Queue batches for which ``reserved`` places were granted; places not used are free again.

        A pool that was closed meanwhile gives them back.
        """
        with self._changed:
            accepted = not self._closed
            self._shares.submit(using, batches if accepted else [], reserved)
            self._changed.notify(len(batches))
            waiting = self._with_room()
        if not accepted and batches:
            self._release(batches)
        _call(waiting)

    def load(self) -> dict[str, int]:
        """Busy and stuck threads and waiting jobs, as columns of the node's row."""
        with self._changed:
            busy, stuck = len(self._active), len(self._stuck)
            queued = self._shares.queued + sum(map(len, self._lone_waits()))
            return {"busy_threads": busy, "stuck_threads": stuck, "queued_jobs": queued}

    def jobs_in_hand(self) -> list[AcquiredJob]:
        """All jobs that are queued or running, also behind a stuck one."""
        with self._changed:
            waiting = (*self._shares.waiting(), *self._lone_waits())
            return [job for batch in (*waiting, *self._active, *self._stuck) for job in batch]

    @property
    def empty(self) -> bool:
        """Nothing reserved, queued or running. What is stuck does not count: it has been given up."""
        with self._changed:
            return self._shares.empty

    @property
    def alive(self) -> bool:
        """Whether any of its threads runs."""
        return any(worker.is_alive() for worker in self._workers)

    # Start and stop.

    def start(self) -> None:
        with self._changed:
            self._closed = False
            # After a stop that did not end in time a worker may still be busy: it is one of ours again.
            while self._staff < self.threads:
                self._add_worker()

    def _add_worker(self) -> None:
        self._workers = [worker for worker in self._workers if worker.is_alive()]
        self._workers.append(spawn(f"jobexec-worker-{len(self._workers) + 1}", self._work))
        self._staff += 1

    def stop(self, timeout: float) -> bool:
        """Give back what has not begun and wait for what runs; for what is stuck there is no use in waiting long."""
        with self._changed:
            self._closed = True
            waiting = [*self._shares.clear(), *self._lone_waits()]
            for batch in self._lone_waits():
                self._leave(batch)
            self._changed.notify_all()
        if waiting:
            self._release(waiting)
        with self._changed:
            drained = self._changed.wait_for(lambda: not self._active, timeout)
            drained = drained and self._changed.wait_for(lambda: not self._stuck, _STUCK_STOP)
        deadline = Deadline(_WORKER_STOP if drained else 0)  # those without work end at once
        for worker in self._workers:
            worker.join(deadline.left)
        self._workers = [worker for worker in self._workers if worker.is_alive()]
        return drained

    # What the watch over timeouts uses.

    def give_up(self, job: AcquiredJob, most: int) -> int:
        """The thread that runs ``job`` is stuck: let another take its place, if no more than ``most`` are stuck.

        Returns how many threads are stuck now. Nothing happens if the thread has just ended its batch.
        """
        with self._changed:
            for batch in self._active:
                if any(each is job for each in batch):
                    self._active = [active for active in self._active if active is not batch]
                    self._stuck.append(batch)
                    self._staff -= 1
                    self._leave(batch)
                    if len(self._stuck) <= most and not self._closed:
                        self._add_worker()
                    break
            stuck, waiting = len(self._stuck), self._with_room()
        _call(waiting)
        return stuck

    # What workers do.

    def _work(self) -> None:
        while (batch := self._take()) is not None:
            try:
                self._run(batch)
            except BaseException:  # no worker dies, whatever a project's logging filters or signals do
                with suppress(Exception):
                    logger.exception("A batch of %d jobs could not be run to its end", len(batch))
            finally:
                replaced = self._done(batch)
            if replaced:
                return

    def _take(self) -> Batch | None:
        with self._changed:
            while (batch := self._next()) is None:
                if self._closed:
                    self._staff -= 1
                    return None
                if not self._changed.wait(_IDLE_SECONDS):
                    rest_connections_outside(self._changed)
            self._active.append(batch)
            return batch

    def _next(self) -> Batch | None:
        if self._lone is None:
            batch = self._shares.next(with_suspects=not self._suspect_runs)
            if batch is None or not is_suspect(batch):
                return batch
            self._suspect_runs = True
            if not _runs_alone(batch):
                return batch
            self._lone = batch
        # It begins when all else has ended, and nothing begins before it has ended.
        return None if self._active else self._lone

    def _lone_waits(self) -> list[Batch]:
        """The batch that waits to run alone, if there is one."""
        lone = self._lone
        return [] if lone is None or any(active is lone for active in self._active) else [lone]

    def _done(self, batch: Batch) -> bool:
        """Whether the thread was stuck and another has taken its place; if none has, it goes on itself."""
        with self._changed:
            self.done += len(batch)
            replaced = False
            if any(each is batch for each in self._stuck):
                self._stuck = [each for each in self._stuck if each is not batch]
                replaced = self._staff >= self.threads
                if not replaced:
                    self._staff += 1
            else:
                self._active = [active for active in self._active if active is not batch]
                self._leave(batch)
            if self._closed:
                self._changed.notify_all()
            waiting = self._with_room()
        _call(waiting)
        return replaced

    def _leave(self, batch: Batch) -> None:
        """The batch's places and its thread are free again."""
        self._shares.done(batch)
        if is_suspect(batch):
            # Also when it is stuck: other suspects would wait for ever, and its own row has been settled.
            self._suspect_runs = False
        if batch is self._lone:
            self._lone = None
            self._changed.notify_all()
        self._changed.notify()

    def _with_room(self) -> list[Callable[[], None]]:
        """Whom to tell that there is room: those who were refused, once their part of the queue is half empty."""
        if self._closed or self._lone is not None:
            return []
        ready = [using for using in self._refused if self._shares.has_room(using)]
        return [self._refused.pop(using) for using in ready]


def _runs_alone(batch: Batch) -> bool:
    return any(job.lost_runs >= ALONE_FROM for job in batch)


def _call(waiting: Sequence[Callable[[], None]]) -> None:
    for on_room in waiting:
        try:
            on_room()
        except Exception:
            logger.exception("An acquirer could not be told that there is room")
