"""Which batch gets the next thread: queued, running and stuck batches, and those that must wait for others."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence

from jobexec import clock
from jobexec.operations.values.acquired_job import AcquiredJob

from .async_admission import AsyncAdmission
from .chunk import Chunk
from .contention import Contention
from .fair_queue import Batch, FairQueue, Kind, runs_alone
from .throughput import Throughput

#: A job that takes longer than this (seconds) is not tiny: other threads take over the batches waiting behind it.
STALL = 0.005

#: The most jobs of one transaction; how many threads run such at the same time; and how long (seconds) one of them may
#: take and still count.
_SHARED, _SHARING, _LONG = 32, 2, 0.25
#: How many jobs, if so many wait, are a chunk whose handler looks ahead.
_AHEAD = 16

#: Called once, without the lock, when asking for places again is worthwhile.
OnRoom = Callable[[], None]


class WorkQueue:
    """The places of a pool and the order in which its threads take the batches in them.

    Every method is called with ``changed`` held, which is notified when a thread should look again. A job that was lost
    twice while it ran runs with nothing beside it. ``staff`` counts the threads that take batches, now or when they
    have ended theirs; not stuck ones.
    """

    def __init__(self, threads: int, capacity: int, shares: Sequence[str], admission: AsyncAdmission | None) -> None:
        self.threads = threads
        self.changed = threading.Condition()
        self.throughput = Throughput(threads)
        self.contention = Contention(threads)
        self.fair_queue = FairQueue(threads, capacity, shares, self.throughput)
        self.admission = admission
        self.lone: Batch | None = None  # waits until nothing else runs, or runs
        self.active: list[Chunk] = []
        self.stuck: list[Chunk] = []
        self.staff = 0
        #: Whether an idle thread looks for batches that are held up.
        self.watched = False
        self.closed = True
        #: How many jobs have left their threads since the process started, whatever their outcome.
        self.done = 0
        self._parked: dict[int, Batch] = {}
        self._taken_at = 0.0
        self._refused: dict[str, OnRoom] = {}

    # State.

    def load(self) -> dict[str, int]:
        """Busy and stuck threads and waiting jobs, as columns of the node's row."""
        others = self.admission.waiting() if self.admission is not None else ()
        waiting = sum(map(len, (*self._lone_waits(), *self._parked.values(), *others)))
        queued = self.fair_queue.queued + waiting + sum(chunk.waiting_jobs for chunk in self.active)
        return {"busy_threads": len(self.active), "stuck_threads": len(self.stuck), "queued_jobs": queued}

    def jobs(self) -> list[AcquiredJob]:
        """All jobs that are queued or running, including those behind a stuck one."""
        waiting = (*self.fair_queue.waiting(), *self._lone_waits(), *self._parked.values())
        running = [batch for chunk in (*self.active, *self.stuck) for batch in chunk.batches()]
        if self.admission is not None:
            running += [*self.admission.waiting(), *self.admission.within()]
        return [job for batch in (*waiting, *running) for job in batch]

    @property
    def empty(self) -> bool:
        """Nothing is reserved, queued or running. Stuck jobs do not count: they have been given up."""
        return self.fair_queue.empty and (self.admission is None or self.admission.empty)

    @property
    def async_jobs(self) -> int:
        """How many async handlers are running or waiting."""
        return self.admission.busy if self.admission is not None else 0

    @property
    def busy(self) -> bool:
        """Whether jobs may produce outcomes soon; may be read without the lock."""
        return bool(self.active or self.fair_queue.queued or self.async_jobs)

    def ends_within(self, seconds: float) -> float:
        """About how many jobs end in this time; many while that is not known. May be read without the lock."""
        each = self.throughput.seconds
        if each is None or self.async_jobs:
            return math.inf  # how long async jobs take is not measured
        return len(self.active) * seconds / max(each, 1e-7)

    @property
    def to_be_watched(self) -> bool:
        """Whether any batch could be held up."""
        return bool(self.fair_queue.queued) or any(chunk.waiting for chunk in self.active)

    # Arrivals.

    def reserve(self, wanted: int, on_room: OnRoom, share: str) -> int:
        """How many of ``wanted`` jobs of an acquisition may come; if none, ``on_room`` is called when there is room.

        None while a job waits to run alone or does: whatever was acquired would wait here for its end, and other nodes
        could not have it.
        """
        idle, admission = self.staff - len(self.active), self.admission
        if admission is not None:
            wanted, idle = min(wanted, admission.limit(share)), max(idle, admission.extra(share))
        open_to_all = not self.closed and self.lone is None
        granted = self.fair_queue.reserve(share, wanted, idle) if open_to_all else 0
        if not granted and open_to_all and wanted and admission is not None and admission.may_try(share):
            granted = self.fair_queue.reserve(share, 1, 1)
            admission.tries(share, granted)
        if not granted:
            self._refused[share] = on_room
        return granted

    def admit(self, batches: Sequence[Batch], reserved: int, share: str) -> Sequence[Batch]:
        """Queue batches for which ``reserved`` places were granted; returns those to be released."""
        admission = self.admission
        refused: Sequence[Batch] = batches if self.closed else []
        own = [] if self.closed else batches
        if admission is not None and not self.closed:
            own = admission.sort(share, batches)
            if admission.has_tried(share) and len(self.active) >= self.staff:
                own, refused = [], own
        self.fair_queue.submit(share, own, reserved)
        self.admit_async()
        self._call_threads()
        return refused

    # Follow-ups, which are not acquired.

    def spare(self, handler_type: str, atomic: bool) -> int:
        """How many more jobs of a handler would begin at once."""
        if self.closed or self.lone is not None:
            return 0
        if self.admission is not None and self.admission.runs(handler_type, atomic):
            return self.admission.spare
        return self.staff - len(self.active) - self.fair_queue.queued

    @property
    def most_spare(self) -> int:
        """How many more jobs of the handlers that fit best would begin at once."""
        if self.closed or self.lone is not None:
            return 0
        of_threads = self.staff - len(self.active) - self.fair_queue.queued
        return max(of_threads, self.admission.spare if self.admission is not None else 0)

    @property
    def none_waits(self) -> bool:
        """Whether the next job that goes on overtakes none."""
        return not (self.closed or self.lone is not None or self.fair_queue.queued)

    def offer(self, batches: Sequence[Batch], share: str) -> Sequence[Batch]:
        """Queue batches for which no places were reserved; returns those to be released."""
        if self.closed or self.lone is not None:
            return batches
        own = batches if self.admission is None else self.admission.sort(share, batches)
        refused = [] if self.fair_queue.offer(share, own) else own
        self.admit_async()
        self._call_threads()
        return refused

    def join(self, batch: Batch, jobs: Batch) -> bool:
        """Let siblings join a batch that runs; False if its thread has been given up."""
        chunk = next((each for each in self.active if each.current is batch), None)
        if chunk is not None:
            chunk.jobs += len(jobs)
            self.fair_queue.join(chunk.share, len(jobs))
        elif self.admission is None or not any(each is batch for each in self.admission.within()):
            return False
        batch += jobs
        return True

    def park(self, siblings: Batch) -> None:
        """Keep the places of jobs that run after the outcome of the one before them is committed."""
        self._parked[id(siblings)] = siblings
        self.fair_queue.park(siblings[0].share, len(siblings))
        self.done -= len(siblings)  # they have not left their thread for good

    def resume(self, batches: Sequence[Batch], go_on: bool) -> list[Batch]:
        """Let parked jobs go on, or forget them; returns those that were parked."""
        # Only once each: the settlement calls again if something failed after this.
        found = [batch for batch in batches if self._parked.pop(id(batch), None) is not None]
        for batch in found:
            queue = go_on and not self.closed
            boards = queue and self.admission is not None and self.admission.sort_sibling(batch)
            self.fair_queue.resume(batch, queue=queue and not boards)
        self.admit_async()
        self._call_threads()
        return found

    def admit_async(self) -> None:
        """Send waiting batches to the async worker."""
        if self.admission is not None and self.lone is None and not self.closed:
            self.admission.go()

    def withdraw(self, unwanted: Callable[[Batch], bool]) -> list[Batch]:
        """Remove and return some of the batches that wait for a thread or for the async worker.

        Not one that waits until it can run alone, nor siblings that wait for a commit.
        """
        for chunk in self.active:
            if any(map(unwanted, chunk.batches())):
                self.fair_queue.put_back(chunk.share, chunk.take_back())
        found = self.fair_queue.withdraw(unwanted)
        if self.admission is not None:
            found += self.admission.withdraw(unwanted)
        self._call_threads()  # for what was put back
        return found

    # Taken by threads.

    def next(self, fresh: bool) -> Chunk | None:
        """The next chunk for a thread; None if there is none. ``fresh``: the thread has just ended another."""
        chunk = self._choose(fresh)
        if chunk is not None:
            self.active.append(chunk)
            self._taken_at = clock.monotonic()
        return chunk

    def _choose(self, fresh: bool) -> Chunk | None:
        if self.lone is None:
            if self._enough(fresh):
                return None
            if held_up := self._take_over():  # first: it has waited longer than the queue
                return held_up
            batches = self.fair_queue.next(self._most(), self._most_of)
            if not batches:
                return None
            if not runs_alone(batches[0]):
                return Chunk(batches, kind=self.fair_queue.kind_of(batches[0]) if len(batches) > 1 else Kind.PLAIN)
            self.lone = batches[0]
        # It starts when everything else has ended, and nothing starts before it has ended.
        return None if self.active or self.async_jobs else Chunk([self.lone], lone=True)

    def _most(self) -> int:
        """How many batches a thread takes: few enough to leave some to other threads, unless the jobs are tiny."""
        return max(1, min(self.throughput.chunk(), self.fair_queue.queued // 2))

    def _most_of(self, kind: Kind) -> int | None:
        """How many batches of another kind a thread takes: more, because alone each would cost more."""
        half = self.fair_queue.queued // 2
        if kind is Kind.AHEAD:
            return max(self._most(), min(_AHEAD, half) if self.throughput.within(2 * STALL) else 1)
        since = clock.monotonic() - _LONG
        if sum(1 for chunk in self.active if chunk.kind is kind and chunk.since > since) >= _SHARING:
            return None  # more threads would only obstruct each other, with all their rows locked
        return max(1, min(_SHARED, half))

    def _enough(self, fresh: bool) -> bool:
        """Whether enough threads are working and making progress, so that one more would not help."""
        busy, most = len(self.active), self.contention.most
        if not fresh:
            most = min(most, self.throughput.threads_for(self.fair_queue.queued))
        return 0 < most <= busy and clock.monotonic() - self._taken_at < STALL

    def _take_over(self) -> Chunk | None:
        """Take half of the batches that wait behind a long job."""
        now = clock.monotonic()
        for chunk in self.active:
            if (
                chunk.waiting
                and now - chunk.since >= (_LONG if chunk.beside else STALL)
                and self.fair_queue.take_over(chunk.share)
            ):
                if batches := chunk.take_back(0.5):
                    return Chunk(batches, kind=chunk.kind)
                self.fair_queue.done(chunk.share, 0)  # its thread has just gone on
        return None

    def _call_threads(self, going_on: int = 0) -> None:
        """Wake up as many threads as are useful beside ``going_on``, and one to watch them if none does."""
        if queued := self.fair_queue.queued:
            useful = min(self.contention.most, self.throughput.threads_for(queued))
            self.changed.notify(max(0, useful - len(self.active) - going_on) + (not self.watched))

    def _lone_waits(self) -> list[Batch]:
        """The batch that waits to run alone, if there is one."""
        lone = self.lone
        return [] if lone is None or any(chunk.lone for chunk in self.active) else [lone]

    # Departures.

    def end(self, chunk: Chunk) -> bool:
        """A thread has ended its chunk. Returns whether it was stuck and has been replaced; if not, it goes on."""
        self.done += chunk.jobs
        replaced = False
        if chunk in self.stuck:
            self.stuck.remove(chunk)
            replaced = self.staff >= self.threads
            if not replaced:
                self.staff += 1
        else:
            self.active.remove(chunk)
            now = clock.monotonic()
            self.throughput.note(chunk.begun, now - chunk.began)
            self.contention.note(chunk.begun, time.thread_time() - chunk.cpu, now)
            self._leave(chunk.share, chunk.jobs, lone=chunk.lone, going_on=1)
        if self.closed:
            self.changed.notify_all()
        return replaced

    def leave_async(self, batches: Sequence[Batch]) -> None:
        """Batches have left the async worker."""
        if self.admission is not None:
            self.admission.leave(batches)
        self.done += sum(map(len, batches))
        self.admit_async()
        if self.closed or self.lone is not None:
            self.changed.notify_all()

    def give_up(self, job: AcquiredJob) -> bool:
        """Mark the thread that runs ``job`` as stuck; False if it has just ended its batch."""
        for chunk in self.active:
            if chunk.runs(job):
                self.active.remove(chunk)
                self.stuck.append(chunk)
                self.staff -= 1
                self.fair_queue.put_back(chunk.share, chunk.take_back())
                self._leave(chunk.share, chunk.jobs, lone=chunk.lone)
                return True
        return False

    def close(self) -> list[Batch]:
        """Stop handing out batches; returns those that have not started."""
        self.closed = True
        for chunk in self.active:
            self.fair_queue.put_back(chunk.share, chunk.take_back())
        waiting = [*self.fair_queue.clear(), *self._lone_waits()]
        if self.admission is not None:
            waiting += self.admission.clear()
        for batch in self._lone_waits():
            self._leave(batch[0].share, len(batch), lone=True)
        self.changed.notify_all()
        return waiting

    def _leave(self, share: str, jobs: int, lone: bool, going_on: int = 0) -> None:
        """Free the places of these jobs and their thread; ``going_on``: 1 if that looks for others itself."""
        self.fair_queue.done(share, jobs)
        if lone:  # also when it is stuck: the others would wait for ever, and its own row has been settled
            self.lone = None
            self.admit_async()
            self.changed.notify_all()
        if self.fair_queue.waits_for_a_turn():
            self.changed.notify()
        self._call_threads(going_on)

    def with_room(self) -> list[OnRoom]:
        """The callbacks of refused acquisitions whose part of the queue is now half empty."""
        if self.closed or self.lone is not None:
            return []
        ready = [share for share in self._refused if self._has_room(share)]
        return [self._refused.pop(share) for share in ready]

    def _has_room(self, share: str) -> bool:
        admission = self.admission
        if admission is None:
            return self.fair_queue.has_room(share)
        extra = admission.extra(share)
        worth = self.fair_queue.has_room(share) or self.fair_queue.queued < extra // 2
        return worth and admission.limit(share) > self.threads // 2
