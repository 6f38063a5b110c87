"""How acquisitions share the pool's places and take turns at its threads. Plain counting, under the pool's lock."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from jobexec.operations.values.acquired_job import ALONE_FROM, AcquiredJob

from .throughput import Throughput

Batch = list[AcquiredJob]


def runs_alone(batch: Batch) -> bool:
    """Whether a job of the batch was lost twice while it ran."""
    for job in batch:  # noqa: SIM110 (called for every batch, where a generator would cost more than the check)
        if job.lost_runs >= ALONE_FROM:
            return True
    return False


class Kind(Enum):
    """What a batch gains from the others of its chunk."""

    PLAIN = auto()
    AHEAD = auto()
    """Its handler looks up something for several jobs at once."""
    SHARED = auto()
    """It shares a transaction with others of this kind, which are the only ones in its chunk."""


@dataclass(slots=True)
class _Share:
    """The load of one acquisition, counted in jobs; ``busy`` counts its threads.

    ``parked`` are siblings that wait until the outcome of the one before them is committed.
    """

    reserved: int = 0
    queued: int = 0
    running: int = 0
    parked: int = 0
    busy: int = 0
    queue: deque[Batch] = field(default_factory=deque)

    @property
    def held(self) -> int:
        return self.reserved + self.queued + self.running + self.parked


class FairQueue:
    """Places and turns of the acquisitions of one pool: each engine has one, or those defined by its ACQUISITIONS.

    Half of the places are reserved in equal parts for the acquisitions, used or not; the other half goes to the first
    that asks. Threads take batches from the acquisitions in turn, in the order of each acquisition. With enough threads
    each acquisition leaves one to every other: a flood of jobs or a hanging database of one acquisition slows the
    others down but never stops them.
    """

    def __init__(self, threads: int, capacity: int, names: Sequence[str], throughput: Throughput | None = None) -> None:
        self._threads, self._capacity = threads, capacity
        self._throughput = throughput or Throughput(threads)
        self.kind_of: Callable[[Batch], Kind] = lambda batch: Kind.PLAIN
        self._shares: dict[str, _Share] = {name: _Share() for name in names}
        count = max(1, len(names))
        self._kept = capacity // (2 * count) if count > 1 else 0
        self._most_busy = threads - (count - 1) if threads >= 2 * count else threads

    def _of(self, name: str) -> _Share:
        return self._shares.setdefault(name, _Share())

    def _free(self, name: str) -> int:
        """How many places an acquisition may use, including those that it holds."""
        others = [share for other, share in self._shares.items() if other != name]
        return self._capacity - sum(max(share.held, self._kept) for share in others)

    def _room(self, name: str) -> int:
        """As :meth:`_free`, but at most a second's work."""
        others = [share for other, share in self._shares.items() if other != name]
        return min(self._free(name), self._throughput.most() - sum(share.held for share in others))

    def reserve(self, name: str, wanted: int, idle: int = 0) -> int:
        """Reserve up to ``wanted`` places for jobs about to be acquired; returns how many.

        However long jobs take here, each of ``idle`` threads may have one.
        """
        share = self._of(name)
        idle -= sum(other.reserved + other.queued for other in self._shares.values())
        room = max(self._room(name), min(share.held + idle, self._free(name)))
        granted = max(0, min(wanted, room - share.held))
        share.reserved += granted
        return granted

    def submit(self, name: str, batches: Sequence[Batch], reserved: int) -> None:
        """Queue the acquired batches and release the places reserved for them."""
        share = self._of(name)
        share.reserved -= reserved
        share.queue.extend(batches)
        share.queued += sum(map(len, batches))

    def has_room(self, name: str) -> bool:
        """Whether acquiring again is worthwhile: the share's waiting jobs have shrunk to half of what is allowed."""
        share = self._of(name)
        return share.reserved + share.queued <= max(0, self._room(name) - self._threads) // 2

    def next(self, most: int = 1, most_of: Callable[[Kind], int | None] | None = None) -> list[Batch]:
        """The batches whose turn it is, up to ``most`` of one acquisition; a batch that runs alone comes alone.

        If the first one is not PLAIN, ``most_of`` says how many there may be; with None, it has to wait.
        """
        for name, share in list(self._shares.items()):
            if share.queue and share.busy < self._most_busy:
                kind, wanted = self.kind_of(share.queue[0]), most
                if kind is not Kind.PLAIN and most_of is not None:
                    of_kind = most_of(kind)
                    if of_kind is None:
                        continue
                    wanted = of_kind
                batches = self._take(share, kind, wanted)
                jobs = sum(map(len, batches))
                share.queued -= jobs
                share.running += jobs
                share.busy += 1
                if len(self._shares) > 1:
                    self._shares[name] = self._shares.pop(name)  # to the end: its next turn comes after the others
                return batches
        return []

    def _take(self, share: _Share, kind: Kind, most: int) -> list[Batch]:
        batch = share.queue.popleft()
        batches = [batch]
        if kind is Kind.SHARED:
            while len(batches) < most and share.queue and self.kind_of(share.queue[0]) is kind:
                batches.append(share.queue.popleft())
            return batches
        while len(batches) < most and share.queue and not (runs_alone(batch) or runs_alone(share.queue[0])):
            batches.append(share.queue.popleft())
        return batches

    def offer(self, name: str, batches: Sequence[Batch]) -> bool:
        """Queue batches for which no places were reserved; False if there are too few."""
        share, jobs = self._of(name), sum(map(len, batches))
        if self._free(name) - share.held < jobs:
            return False
        share.queue.extend(batches)
        share.queued += jobs
        return True

    def join(self, name: str, jobs: int) -> None:
        """Jobs have joined a batch that runs."""
        self._of(name).running += jobs

    def put_back(self, name: str, batches: Sequence[Batch]) -> None:
        """Return batches that a thread took and did not start to the front of the queue."""
        share, jobs = self._of(name), sum(map(len, batches))
        share.queue.extendleft(reversed(batches))
        share.running -= jobs
        share.queued += jobs

    def take_over(self, name: str) -> bool:
        """Let one more thread work for an acquisition, on another's batches; False if it has its maximum."""
        share = self._of(name)
        if share.busy >= self._most_busy:
            return False
        share.busy += 1
        return True

    def park(self, name: str, jobs: int) -> None:
        """Siblings keep their places without a thread."""
        self._of(name).parked += jobs

    def resume(self, batch: Batch, queue: bool) -> None:
        """Return parked siblings to the front of the queue, or give up their places.

        Siblings that were acquired before the queue was: follow-ups came later than what waits there.
        """
        share = self._of(batch[0].share)
        share.parked -= len(batch)
        if queue:
            if batch[0].followers is None:
                share.queue.appendleft(batch)
            else:
                share.queue.append(batch)
            share.queued += len(batch)

    def done(self, name: str, jobs: int) -> None:
        """A thread has ended the batches it took."""
        share = self._of(name)
        share.running -= jobs
        share.busy -= 1

    def waits_for_a_turn(self) -> bool:
        """Whether batches may wait that no thread could take, because of other acquisitions."""
        return len(self._shares) > 1

    def waiting(self) -> list[Batch]:
        """All batches that wait for a thread."""
        return [batch for share in self._shares.values() for batch in share.queue]

    def withdraw(self, unwanted: Callable[[Batch], bool]) -> list[Batch]:
        """Remove and return some of the batches that wait for a thread."""
        found = list(filter(unwanted, self.waiting()))
        for share in self._shares.values() if found else ():
            share.queue = deque(batch for batch in share.queue if not unwanted(batch))
            share.queued = sum(map(len, share.queue))
        return found

    def clear(self) -> list[Batch]:
        """Remove and return all batches that wait for a thread."""
        waiting = self.waiting()
        for share in self._shares.values():
            share.queue.clear()
            share.queued = 0
        return waiting

    @property
    def queued(self) -> int:
        """How many jobs wait for a thread. Safe to read without the pool's lock."""
        return sum([share.queued for share in list(self._shares.values())])

    @property
    def empty(self) -> bool:
        """Nothing is reserved, waiting or running."""
        return not any(share.held for share in self._shares.values())
