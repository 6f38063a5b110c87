"""How acquisitions share the pool: its places, and the turn at its threads. Plain counting, under the pool's lock."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from jobexec.operations.values.acquired_job import ALONE_FROM, AcquiredJob

from .throughput import Throughput

Batch = list[AcquiredJob]


def runs_alone(batch: Batch) -> bool:
    """Whether a job of the batch was lost twice while it ran."""
    for job in batch:  # noqa: SIM110 (asked for every batch, and a generator would cost more than the look)
        if job.lost_runs >= ALONE_FROM:
            return True
    return False


@dataclass(slots=True)
class _Share:
    """What one acquisition holds, counted in jobs; ``busy`` counts its threads.

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
    """Places and turns of the acquisitions of one pool: each engine has one, or those that its ACQUISITIONS name.

    Half of the places are kept free in equal parts for the acquisitions that do not use theirs, the other half goes to
    the first that asks. Batches go to threads by turns, one of each acquisition, in the order of each acquisition. With
    enough threads each leaves one to every other: so an acquisition that brings a flood, or whose database hangs, slows
    the others down and never stops them.
    """

    def __init__(self, threads: int, capacity: int, names: Sequence[str], throughput: Throughput | None = None) -> None:
        self._threads, self._capacity = threads, capacity
        self._throughput = throughput or Throughput(threads)
        self._shares: dict[str, _Share] = {name: _Share() for name in names}
        count = max(1, len(names))
        self._kept = capacity // (2 * count) if count > 1 else 0
        self._most_busy = threads - (count - 1) if threads >= 2 * count else threads

    def _of(self, name: str) -> _Share:
        return self._shares.setdefault(name, _Share())

    def _free(self, name: str) -> int:
        """How many places an acquisition may use, those included that it has."""
        others = [share for other, share in self._shares.items() if other != name]
        return self._capacity - sum(max(share.held, self._kept) for share in others)

    def _room(self, name: str) -> int:
        """The same, but no more than a second's work."""
        others = [share for other, share in self._shares.items() if other != name]
        return min(self._free(name), self._throughput.most() - sum(share.held for share in others))

    def reserve(self, name: str, wanted: int, idle: int = 0) -> int:
        """Keep up to ``wanted`` places for jobs that are about to be acquired; how many.

        However long jobs take here, each of ``idle`` threads may have one.
        """
        share = self._of(name)
        idle -= sum(other.reserved + other.queued for other in self._shares.values())
        room = max(self._room(name), min(share.held + idle, self._free(name)))
        granted = max(0, min(wanted, room - share.held))
        share.reserved += granted
        return granted

    def submit(self, name: str, batches: Sequence[Batch], reserved: int) -> None:
        """Queue what was acquired and give up what was reserved for it."""
        share = self._of(name)
        share.reserved -= reserved
        share.queue.extend(batches)
        share.queued += sum(map(len, batches))

    def has_room(self, name: str) -> bool:
        """Whether it is worth while to acquire again: what waits of a share has shrunk to half of what may."""
        share = self._of(name)
        return share.reserved + share.queued <= max(0, self._room(name) - self._threads) // 2

    def next(self, most: int = 1) -> list[Batch]:
        """The batches whose turn it is, up to ``most`` of one acquisition; one that runs alone comes alone."""
        for name, share in list(self._shares.items()):
            if share.queue and share.busy < self._most_busy:
                batch = share.queue.popleft()
                batches = [batch]
                while len(batches) < most and share.queue and not (runs_alone(batch) or runs_alone(share.queue[0])):
                    batches.append(share.queue.popleft())
                jobs = sum(map(len, batches))
                share.queued -= jobs
                share.running += jobs
                share.busy += 1
                if len(self._shares) > 1:
                    self._shares[name] = self._shares.pop(name)  # to the end: its next turn comes after the others
                return batches
        return []

    def put_back(self, name: str, batches: Sequence[Batch]) -> None:
        """Batches that a thread had taken and not begun wait again, in front."""
        share, jobs = self._of(name), sum(map(len, batches))
        share.queue.extendleft(reversed(batches))
        share.running -= jobs
        share.queued += jobs

    def take_over(self, name: str) -> bool:
        """Let one more thread work for an acquisition, on what another had taken; False if it has as many as it may."""
        share = self._of(name)
        if share.busy >= self._most_busy:
            return False
        share.busy += 1
        return True

    def park(self, name: str, jobs: int) -> None:
        """So many siblings keep their places without a thread."""
        self._of(name).parked += jobs

    def resume(self, batch: Batch, queue: bool) -> None:
        """Parked siblings wait for a thread again, in front, or have been given up."""
        share = self._of(batch[0].share)
        share.parked -= len(batch)
        if queue:
            share.queue.appendleft(batch)
            share.queued += len(batch)

    def done(self, name: str, jobs: int) -> None:
        """A thread has ended what it had taken."""
        share = self._of(name)
        share.running -= jobs
        share.busy -= 1

    def waits_for_a_turn(self) -> bool:
        """Whether batches may wait that no thread could take, because of other acquisitions."""
        return len(self._shares) > 1

    def waiting(self) -> list[Batch]:
        """All batches that wait for a thread."""
        return [batch for share in self._shares.values() for batch in share.queue]

    def clear(self) -> list[Batch]:
        """Take all batches out that wait for a thread."""
        waiting = self.waiting()
        for share in self._shares.values():
            share.queue.clear()
            share.queued = 0
        return waiting

    @property
    def queued(self) -> int:
        """How many jobs wait for a thread. Any thread may ask, also one without the pool's lock."""
        return sum([share.queued for share in list(self._shares.values())])

    @property
    def empty(self) -> bool:
        """Nothing is reserved, waits or runs."""
        return not any(share.held for share in self._shares.values())
