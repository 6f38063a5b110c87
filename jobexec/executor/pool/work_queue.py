"""Who may have the next thread: what is queued, what runs, what is stuck, and what must wait for what."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from jobexec import clock
from jobexec.operations.values.acquired_job import AcquiredJob

from .async_admission import Boarding
from .chunk import Chunk
from .fair_queue import Batch, Shares, runs_alone
from .throughput import Pace

#: A job that takes longer than this (seconds) is not tiny: others take over what its thread was to run after it.
STALL = 0.005

#: Is called, once and without the lock, when it is worth while to ask for places again.
OnRoom = Callable[[], None]


class Places:
    """The places of a pool and the order in which its threads take what is in them.

    Every method is called with ``changed`` held, which is notified when a thread should look again. A job that was lost
    twice while it ran runs with nothing beside it. ``staff`` counts the threads that take batches, now or when they
    have ended theirs; not those that are stuck.
    """

    def __init__(self, threads: int, capacity: int, shares: Sequence[str], boarding: Boarding | None) -> None:
        self.threads = threads
        self.changed = threading.Condition()
        self.pace = Pace(threads)
        self.shares = Shares(threads, capacity, shares, self.pace)
        self.boarding = boarding
        self.lone: Batch | None = None  # waits until nothing else runs, or runs
        self.active: list[Chunk] = []
        self.stuck: list[Chunk] = []
        self.staff = 0
        self.closed = True
        #: How many jobs have left their threads since the process began, whatever became of them.
        self.done = 0
        self._parked: dict[int, Batch] = {}
        self._taken_at = 0.0
        self._refused: dict[str, OnRoom] = {}

    # What is here.

    def load(self) -> dict[str, int]:
        """Busy and stuck threads and waiting jobs, as columns of the node's row."""
        others = self.boarding.waiting() if self.boarding is not None else ()
        waiting = sum(map(len, (*self._lone_waits(), *self._parked.values(), *others)))
        queued = self.shares.queued + waiting + sum(chunk.waiting_jobs for chunk in self.active)
        return {"busy_threads": len(self.active), "stuck_threads": len(self.stuck), "queued_jobs": queued}

    def jobs(self) -> list[AcquiredJob]:
        """All jobs that are queued or running, also behind a stuck one."""
        waiting = (*self.shares.waiting(), *self._lone_waits(), *self._parked.values())
        running = [batch for chunk in (*self.active, *self.stuck) for batch in chunk.batches()]
        if self.boarding is not None:
            running += [*self.boarding.waiting(), *self.boarding.within()]
        return [job for batch in (*waiting, *running) for job in batch]

    @property
    def empty(self) -> bool:
        """Nothing reserved, queued or running. What is stuck does not count: it has been given up."""
        return self.shares.empty and (self.boarding is None or self.boarding.empty)

    @property
    def in_lane(self) -> int:
        """How many async handlers run, or wait for something."""
        return self.boarding.busy if self.boarding is not None else 0

    @property
    def busy(self) -> bool:
        """Whether outcomes of jobs may come soon; may be asked without the lock."""
        return bool(self.active or self.shares.queued or self.in_lane)

    @property
    def to_be_watched(self) -> bool:
        """Whether anything could be held up."""
        return bool(self.shares.queued) or any(chunk.waiting for chunk in self.active)

    # What comes.

    def reserve(self, wanted: int, on_room: OnRoom, share: str) -> int:
        """How many of ``wanted`` jobs of an acquisition may come; if none, ``on_room`` is called when there is room.

        None while a job waits to run alone or does: whatever was acquired would wait here for its end, and other nodes
        could not have it.
        """
        idle, boarding = self.staff - len(self.active), self.boarding
        if boarding is not None:
            wanted, idle = min(wanted, boarding.limit(share)), max(idle, boarding.extra(share))
        open_to_all = not self.closed and self.lone is None
        granted = self.shares.reserve(share, wanted, idle) if open_to_all else 0
        if not granted and open_to_all and wanted and boarding is not None and boarding.may_try(share):
            granted = self.shares.reserve(share, 1, 1)
            boarding.tries(share, granted)
        if not granted:
            self._refused[share] = on_room
        return granted

    def admit(self, batches: Sequence[Batch], reserved: int, share: str) -> Sequence[Batch]:
        """Queue batches for which ``reserved`` places were granted; returns those that must be given back."""
        boarding = self.boarding
        refused: Sequence[Batch] = batches if self.closed else []
        own = [] if self.closed else batches
        if boarding is not None and not self.closed:
            own = boarding.sort(share, batches)
            if boarding.has_tried(share) and len(self.active) >= self.staff:
                own, refused = [], own
        self.shares.submit(share, own, reserved)
        self.board()
        self._call_threads()
        return refused

    def park(self, siblings: Batch) -> None:
        """Keep the places of jobs that run after the outcome of the one before them is committed."""
        self._parked[id(siblings)] = siblings
        self.shares.park(siblings[0].share, len(siblings))
        self.done -= len(siblings)  # they have not left their thread for good

    def resume(self, batches: Sequence[Batch], go_on: bool) -> list[Batch]:
        """Let parked jobs go on, or forget them; returns those that were parked."""
        # Once each: the settlement calls again if something failed after this.
        found = [batch for batch in batches if self._parked.pop(id(batch), None) is not None]
        for batch in found:
            queue = go_on and not self.closed
            boards = queue and self.boarding is not None and self.boarding.sort_sibling(batch)
            self.shares.resume(batch, queue=queue and not boards)
        self.board()
        self._call_threads()
        return found

    def board(self) -> None:
        """Send into the lane what waits for it."""
        if self.boarding is not None and self.lone is None and not self.closed:
            self.boarding.go()

    # What threads take.

    def next(self, fresh: bool) -> Chunk | None:
        """What a thread is to run, taken; None if there is nothing for it. ``fresh``: it has just ended something."""
        chunk = self._choose(fresh)
        if chunk is not None:
            self.active.append(chunk)
            self._taken_at = clock.monotonic()
        return chunk

    def _choose(self, fresh: bool) -> Chunk | None:
        if self.lone is None:
            if not fresh and self._enough():
                return None
            if held_up := self._take_over():  # first: it has waited longer than what is queued
                return held_up
            batches = self.shares.next(self._most())
            if not batches:
                return None
            if not runs_alone(batches[0]):
                return Chunk(batches)
            self.lone = batches[0]
        # It begins when all else has ended, and nothing begins before it has ended.
        return None if self.active or self.in_lane else Chunk([self.lone], lone=True)

    def _most(self) -> int:
        """How many batches a thread takes: not so many that others have nothing, unless they are tiny."""
        return max(1, min(self.pace.chunk(), self.shares.queued // 2))

    def _enough(self) -> bool:
        """Whether so many threads are at work, and go on, that one more would be none too few."""
        busy = len(self.active)
        going_on = clock.monotonic() - self._taken_at < STALL
        return bool(busy) and going_on and busy >= self.pace.threads_for(self.shares.queued)

    def _take_over(self) -> Chunk | None:
        """Half of what waits behind a job that takes long."""
        now = clock.monotonic()
        for chunk in self.active:
            if chunk.waiting and now - chunk.since >= STALL and self.shares.take_over(chunk.share):
                if batches := chunk.take_back(0.5):
                    return Chunk(batches)
                self.shares.done(chunk.share, 0)  # its thread has just gone on
        return None

    def _call_threads(self) -> None:
        """Wake as many threads as are of use, and one that watches them."""
        if self.shares.queued:
            wanted = self.pace.threads_for(self.shares.queued) - len(self.active)
            self.changed.notify(max(0, wanted) + 1)

    def _lone_waits(self) -> list[Batch]:
        """The batch that waits to run alone, if there is one."""
        lone = self.lone
        return [] if lone is None or any(chunk.lone for chunk in self.active) else [lone]

    # What goes.

    def end(self, chunk: Chunk) -> bool:
        """A thread has ended its chunk. Whether it was stuck and another has its place; if none has, it goes on."""
        self.done += chunk.jobs
        replaced = False
        if chunk in self.stuck:
            self.stuck.remove(chunk)
            replaced = self.staff >= self.threads
            if not replaced:
                self.staff += 1
        else:
            self.active.remove(chunk)
            self.pace.note(chunk.begun, clock.monotonic() - chunk.began)
            self._leave(chunk.share, chunk.jobs, lone=chunk.lone)
        if self.closed:
            self.changed.notify_all()
        return replaced

    def leave_lane(self, batches: Sequence[Batch]) -> None:
        """These have left the lane."""
        if self.boarding is not None:
            self.boarding.leave(batches)
        self.done += sum(map(len, batches))
        self.board()
        if self.closed or self.lone is not None:
            self.changed.notify_all()

    def give_up(self, job: AcquiredJob) -> bool:
        """The thread that runs ``job`` is stuck; False if it has just ended its batch."""
        for chunk in self.active:
            if chunk.runs(job):
                self.active.remove(chunk)
                self.stuck.append(chunk)
                self.staff -= 1
                self.shares.put_back(chunk.share, chunk.take_back())
                self._leave(chunk.share, chunk.jobs, lone=chunk.lone)
                return True
        return False

    def close(self) -> list[Batch]:
        """Take nothing any more; returns what has not begun."""
        self.closed = True
        for chunk in self.active:
            self.shares.put_back(chunk.share, chunk.take_back())
        waiting = [*self.shares.clear(), *self._lone_waits()]
        if self.boarding is not None:
            waiting += self.boarding.clear()
        for batch in self._lone_waits():
            self._leave(batch[0].share, len(batch), lone=True)
        self.changed.notify_all()
        return waiting

    def _leave(self, share: str, jobs: int, lone: bool) -> None:
        """The places of these jobs and their thread are free again."""
        self.shares.done(share, jobs)
        if lone:  # also when it is stuck: the others would wait for ever, and its own row has been settled
            self.lone = None
            self.board()
            self.changed.notify_all()
        if self.shares.waits_for_a_turn():
            self.changed.notify()
        self._call_threads()

    def with_room(self) -> list[OnRoom]:
        """Whom to tell that there is room: those who were refused, once their part of the queue is half empty."""
        if self.closed or self.lone is not None:
            return []
        ready = [share for share in self._refused if self._has_room(share)]
        return [self._refused.pop(share) for share in ready]

    def _has_room(self, share: str) -> bool:
        boarding = self.boarding
        if boarding is None:
            return self.shares.has_room(share)
        extra = boarding.extra(share)
        worth = self.shares.has_room(share) or self.shares.queued < extra // 2
        return worth and boarding.limit(share) > self.threads // 2
