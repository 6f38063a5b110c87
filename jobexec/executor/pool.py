"""A bounded queue and the worker threads."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

from jobexec import clock
from jobexec.operations.work import AcquiredJob

from .boarding import Boarding, Lane
from .chunk import Chunk
from .connections import rest_connections_outside
from .pace import Pace
from .service import Deadline, Service, spawn
from .shares import Batch, Shares, is_suspect, runs_alone

logger = logging.getLogger("jobexec.executor")

_IDLE_SECONDS = 5.0
_WORKER_STOP = 5.0
_STUCK_STOP = 0.5
_CANCEL_STOP = 2.0
#: A job that takes longer than this (seconds) is not tiny: others take over what its thread was to run after it.
_STALL = 0.005


class Pool(Service):
    """Runs batches of jobs on ``threads`` threads; holds at most ``threads + queue_size`` jobs.

    Acquirers ask :meth:`reserve` before they lock anything, so nothing is ever rejected (Camunda needs a rejected
    jobs handler). ``engines`` share it fairly, see :class:`~jobexec.executor.shares.Shares`. A job with lost runs is a
    suspect: no two suspects run at the same time, and one that was lost while it ran runs with nothing beside it, so
    that a process that dies convicts the right one. A thread whose job goes on after its timeout is stuck, and another
    takes its place. ``run`` executes a batch and never raises; ``release`` gives back batches that have not begun.

    How long jobs take is measured (:class:`~jobexec.executor.pace.Pace`). Tiny ones go to few threads, in chunks, for
    in one Python more threads would only get in each other's way; an idle thread takes over what is held up by a job
    that turns out not to be tiny. ``on_idle`` is called when the last job has left its thread and none waits.

    Jobs of async handlers go to ``lane``, if there is one: up to ``lane_size`` batches at once, which take no places
    and no threads.
    """

    def __init__(
        self,
        threads: int,
        queue_size: int,
        run: Callable[[Batch], None],
        release: Callable[[Sequence[Batch]], None],
        engines: Sequence[str] = (),
        lane: Lane | None = None,
        lane_size: int = 0,
    ) -> None:
        self.threads, self.capacity = threads, threads + queue_size
        self._run, self._release = run, release
        self.on_idle: Callable[[], None] = _nothing
        #: Called with batches that have ended, by then not in hand any more; None if nobody wants to know.
        self.on_left: Callable[[Sequence[Batch]], None] | None = None
        self._changed = threading.Condition()
        self._pace = Pace(threads)
        self._shares = Shares(threads, self.capacity, engines, self._pace)
        self._boarding = Boarding(lane, lane_size, threads) if lane is not None and lane_size else None
        self._suspect_runs = False
        self._lone: Batch | None = None  # waits until nothing else runs, or runs
        self._active: list[Chunk] = []
        self._stuck: list[Chunk] = []
        self._parked: dict[int, Batch] = {}
        self._taken_at = 0.0
        self._watched = False
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
            idle, boarding = self._staff - len(self._active), self._boarding
            if boarding is not None:
                wanted, idle = min(wanted, boarding.limit(using)), max(idle, boarding.extra(using))
            open_to_all = not self._closed and self._lone is None
            granted = self._shares.reserve(using, wanted, idle) if open_to_all else 0
            if not granted and open_to_all and wanted and boarding is not None and boarding.may_try(using):
                granted = self._shares.reserve(using, 1, 1)
                boarding.tries(using, granted)
            if not granted:
                self._refused[using] = on_room
            return granted

    def submit(self, batches: Sequence[Batch], reserved: int, using: str = "default") -> None:
        """Queue batches for which ``reserved`` places were granted; places not used are free again.

        A pool that was closed meanwhile gives them back, as it does with a job that was acquired only to see whether
        it is for the lane.
        """
        with self._changed:
            accepted, boarding = not self._closed, self._boarding
            refused: Sequence[Batch] = [] if accepted else batches
            own = batches if accepted else []
            if boarding is not None and accepted:
                own = boarding.sort(using, batches)
                if boarding.has_tried(using) and len(self._active) >= self._staff:
                    own, refused = [], own
            self._shares.submit(using, own, reserved)
            self._board()
            self._call_threads()
            waiting = self._with_room()
        if refused:
            self._release(refused)
        _call(waiting)

    def load(self) -> dict[str, int]:
        """Busy and stuck threads and waiting jobs, as columns of the node's row."""
        with self._changed:
            busy, stuck = len(self._active), len(self._stuck)
            others = self._boarding.waiting() if self._boarding is not None else ()
            waiting = sum(map(len, (*self._lone_waits(), *self._parked.values(), *others)))
            queued = self._shares.queued + waiting + sum(chunk.waiting_jobs for chunk in self._active)
            return {"busy_threads": busy, "stuck_threads": stuck, "queued_jobs": queued}

    def jobs_in_hand(self) -> list[AcquiredJob]:
        """All jobs that are queued or running, also behind a stuck one."""
        with self._changed:
            waiting = (*self._shares.waiting(), *self._lone_waits(), *self._parked.values())
            running = [batch for chunk in (*self._active, *self._stuck) for batch in chunk.batches()]
            if self._boarding is not None:
                running += [*self._boarding.waiting(), *self._boarding.within()]
            return [job for batch in (*waiting, *running) for job in batch]

    @property
    def in_lane(self) -> int:
        """How many async handlers run, or wait for something."""
        return self._boarding.busy if self._boarding is not None else 0

    @property
    def empty(self) -> bool:
        """Nothing reserved, queued or running. What is stuck does not count: it has been given up."""
        with self._changed:
            return self._shares.empty and (self._boarding is None or self._boarding.empty)

    @property
    def busy(self) -> bool:
        """Whether outcomes of jobs may come soon."""
        return bool(self._active or self._shares.queued or self.in_lane)

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
        """Give back what has not begun and wait for what runs; for what is stuck there is no use in waiting long.

        An async handler that has not ended by then is cancelled, and its job given back.
        """
        with self._changed:
            self._closed = True
            for chunk in self._active:
                self._shares.put_back(chunk.using, chunk.take_back())
            waiting = [*self._shares.clear(), *self._lone_waits()]
            if self._boarding is not None:
                waiting += self._boarding.clear()
            for batch in self._lone_waits():
                self._leave(batch[0].using, len(batch), batch)
            self._changed.notify_all()
        if waiting:
            self._release(waiting)
        with self._changed:
            drained = self._changed.wait_for(lambda: not (self._active or self.in_lane), timeout)
            if self._boarding is not None and self.in_lane:
                self._boarding.lane.cancel()
                self._changed.wait_for(lambda: not self.in_lane, _CANCEL_STOP)
                drained = not (self._active or self.in_lane)
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
            for chunk in self._active:
                if chunk.runs(job):
                    self._active.remove(chunk)
                    self._stuck.append(chunk)
                    self._staff -= 1
                    self._shares.put_back(chunk.using, chunk.take_back())
                    self._leave(chunk.using, chunk.jobs, chunk.suspect)
                    if len(self._stuck) <= most and not self._closed:
                        self._add_worker()
                    break
            stuck, waiting = len(self._stuck), self._with_room()
        _call(waiting)
        return stuck

    # What the lane uses.

    def leave(self, batches: Sequence[Batch]) -> None:
        """These have left the lane."""
        with self._changed:
            if self._boarding is not None:
                self._boarding.leave(batches)
            self.done += sum(map(len, batches))
            self._board()
            if self._closed or self._lone is not None:
                self._changed.notify_all()
            idle, waiting = not self.busy, self._with_room()
        if self.on_left is not None:
            self.on_left(batches)
        self._tell(idle, waiting)

    def _tell(self, idle: bool, waiting: Sequence[Callable[[], None]]) -> None:
        """Who wants to know; without the lock."""
        if idle:
            self.on_idle()
        _call(waiting)

    def _board(self) -> None:
        if self._boarding is not None and self._lone is None and not self._closed:
            self._boarding.go()

    # Siblings that wait for a commit.

    def park(self, siblings: Batch) -> None:
        """Keep the places of jobs that run after the outcome of the one before them is committed."""
        with self._changed:
            self._parked[id(siblings)] = siblings
            self._shares.park(siblings[0].using, len(siblings))
            self.done -= len(siblings)  # they have not left their thread for good

    def resume(self, batches: Sequence[Batch], go_on: bool = True) -> None:
        """Let parked jobs go on; a pool that was closed meanwhile gives them back. Not ``go_on``: forget them."""
        with self._changed:
            closed = self._closed
            # Once each: the settlement calls again if something failed after this.
            batches = [batch for batch in batches if self._parked.pop(id(batch), None) is not None]
            for batch in batches:
                queue = go_on and not closed
                boards = queue and self._boarding is not None and self._boarding.sort_sibling(batch)
                self._shares.resume(batch, queue=queue and not boards)
            self._board()
            self._call_threads()
            waiting = self._with_room()
        if go_on and closed and batches:
            self._release(batches)
        _call(waiting)

    # What workers do.

    def _work(self) -> None:
        while (chunk := self._take()) is not None:
            while (batch := chunk.next()) is not None:
                try:
                    self._run(batch)
                except BaseException:  # no worker dies, whatever a project's logging filters or signals do
                    with suppress(Exception):
                        logger.exception("A batch of %d jobs could not be run to its end", len(batch))
                if self.on_left is not None:
                    chunk.leave()
                    self.on_left([batch])
            if self._done(chunk):
                return

    def _take(self) -> Chunk | None:
        fresh = True  # it has just ended something, and goes on at once
        with self._changed:
            while (chunk := self._next(fresh)) is None:
                if self._closed:
                    self._staff -= 1
                    return None
                fresh = False
                self._wait()
            self._active.append(chunk)
            self._taken_at = clock.monotonic()
            if not self._watched and self._to_be_watched():
                self._changed.notify()  # who has watched until now has work itself
            return chunk

    def _wait(self) -> None:
        """Until somebody calls, or until it is time to see whether the others are held up: one thread watches that."""
        if not self._watched and self._to_be_watched():
            self._watched = True
            try:
                self._changed.wait(_STALL)
            finally:
                self._watched = False
        elif not self._changed.wait(_IDLE_SECONDS):
            rest_connections_outside(self._changed)

    def _to_be_watched(self) -> bool:
        """Whether anything could be held up."""
        return bool(self._shares.queued) or any(chunk.waiting for chunk in self._active)

    def _next(self, fresh: bool) -> Chunk | None:
        if self._lone is None:
            if not fresh and self._enough():
                return None
            if held_up := self._take_over():  # first: it has waited longer than what is queued
                return held_up
            batches = self._shares.next(with_suspects=not self._suspect_runs, most=self._most())
            if not batches:
                return None
            if not is_suspect(batches[0]):
                return Chunk(batches)
            self._suspect_runs = True
            if not runs_alone(batches[0]):
                return Chunk(batches, suspect=batches[0])
            self._lone = batches[0]
        # It begins when all else has ended, and nothing begins before it has ended.
        return None if self._active or self.in_lane else Chunk([self._lone], suspect=self._lone)

    def _most(self) -> int:
        """How many batches a thread takes: not so many that others have nothing, unless they are tiny."""
        return max(1, min(self._pace.chunk(), self._shares.queued // 2))

    def _enough(self) -> bool:
        """Whether so many threads are at work, and go on, that one more would be none too few."""
        busy = len(self._active)
        going_on = clock.monotonic() - self._taken_at < _STALL
        return bool(busy) and going_on and busy >= self._pace.threads_for(self._shares.queued)

    def _take_over(self) -> Chunk | None:
        """Half of what waits behind a job that takes long."""
        now = clock.monotonic()
        for chunk in self._active:
            if chunk.waiting and now - chunk.since >= _STALL and self._shares.take_over(chunk.using):
                if batches := chunk.take_back(0.5):
                    return Chunk(batches)
                self._shares.done(chunk.using, 0)  # its thread has just gone on
        return None

    def _call_threads(self) -> None:
        """Wake as many threads as are of use, and one that watches them."""
        if self._shares.queued:
            wanted = self._pace.threads_for(self._shares.queued) - len(self._active)
            self._changed.notify(max(0, wanted) + 1)

    def _lone_waits(self) -> list[Batch]:
        """The batch that waits to run alone, if there is one."""
        lone = self._lone
        return [] if lone is None or any(chunk.suspect is lone for chunk in self._active) else [lone]

    def _done(self, chunk: Chunk) -> bool:
        """Whether the thread was stuck and another has taken its place; if none has, it goes on itself."""
        with self._changed:
            self.done += chunk.jobs
            replaced = False
            if chunk in self._stuck:
                self._stuck.remove(chunk)
                replaced = self._staff >= self.threads
                if not replaced:
                    self._staff += 1
            else:
                self._active.remove(chunk)
                self._pace.note(chunk.begun, clock.monotonic() - chunk.began)
                self._leave(chunk.using, chunk.jobs, chunk.suspect)
            if self._closed:
                self._changed.notify_all()
            idle, waiting = not self.busy, self._with_room()
        self._tell(idle, waiting)
        return replaced

    def _leave(self, using: str, jobs: int, suspect: Batch | None) -> None:
        """The places of these jobs and their thread are free again."""
        self._shares.done(using, jobs)
        if suspect is not None:
            # Also when it is stuck: other suspects would wait for ever, and its own row has been settled.
            self._suspect_runs = False
            if suspect is self._lone:
                self._lone = None
                self._board()
                self._changed.notify_all()
        if suspect is not None or self._shares.waits_for_a_turn():
            self._changed.notify()
        self._call_threads()

    def _with_room(self) -> list[Callable[[], None]]:
        """Whom to tell that there is room: those who were refused, once their part of the queue is half empty."""
        if self._closed or self._lone is not None:
            return []
        ready = [using for using in self._refused if self._has_room(using)]
        return [self._refused.pop(using) for using in ready]

    def _has_room(self, using: str) -> bool:
        boarding = self._boarding
        if boarding is None:
            return self._shares.has_room(using)
        extra = boarding.extra(using)
        worth = self._shares.has_room(using) or self._shares.queued < extra // 2
        return worth and boarding.limit(using) > self.threads // 2


def _nothing() -> None:
    """Nobody wants to know."""


def _call(waiting: Sequence[Callable[[], None]]) -> None:
    for on_room in waiting:
        try:
            on_room()
        except Exception:
            logger.exception("An acquirer could not be told that there is room")
