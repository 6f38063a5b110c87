"""Which jobs go to the async worker, and how many: plain counting, under the pool's lock."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from jobexec import clock
from jobexec.handlers.registry import async_handler, has_async_handlers

from .fair_queue import Batch, runs_alone
from .throughput import Throughput

_AHEAD = 0.1  # seconds of the async worker's throughput that may wait for it
_PART = 0.02  # a smaller part of the recent jobs counts as none
_NO_LIMIT = 1_000_000_000
_SELDOM = 5.0


class AsyncRunner(Protocol):
    """The async worker as the pool sees it. Neither call blocks."""

    def begin(self, batches: Sequence[Batch]) -> None:
        """Run these batches, and report each to the pool's ``leave`` when it has ended."""
        ...

    def cancel(self) -> None:
        """Ask all running handlers to end now, and release the jobs of those that do."""
        ...


class AsyncAdmission:
    """Batches that wait for the async worker, by turns of the acquisitions, and up to ``size`` batches in it.

    They take no places of threads. While the async worker is full, little is acquired for it, so that other nodes get
    the rest; while it is not, pages for it grow, even when all threads are busy with long jobs.
    """

    def __init__(self, async_worker: AsyncRunner, size: int, threads: int) -> None:
        self.async_worker = async_worker
        self._size, self._threads = size, threads
        self._throughput = Throughput(size)
        self._waiting: dict[str, deque[Batch]] = {}
        self._within: dict[int, tuple[Batch, float]] = {}
        #: The part of an acquisition's last pages that was for the async worker, and how many jobs it may ask for
        #: beyond what the threads have room for.
        self._part: dict[str, float] = {}
        self._page: dict[str, int] = {}
        #: When an acquisition may next try one job, and whether such a job is on its way.
        self._tried: dict[str, float] = {}
        self._trying: set[str] = set()

    def sort(self, share: str, batches: Sequence[Batch]) -> Sequence[Batch]:
        """Keep the batches whose first job the async worker can run; returns the others, for threads.

        Not atomic ones, whose transaction needs its own thread, nor those that must run alone. Jobs that were lost once
        are kept: thousands may have been lost when their process was killed, and one after another they would take
        that many times as long.
        """
        if not batches or not has_async_handlers():
            return batches
        mine: list[Batch] = []
        others: list[Batch] = []
        for batch in batches:
            job = batch[0]
            fits = self.runs(job.handler_type, job.atomic) and not runs_alone(batch)
            (mine if fits else others).append(batch)
        if mine:
            self._waiting.setdefault(share, deque()).extend(mine)
        self._learn(share, len(mine), len(others))
        return others

    def runs(self, handler_type: str, atomic: bool) -> bool:
        """Whether the async worker runs jobs of this handler."""
        return not atomic and async_handler(handler_type) is not None

    @property
    def spare(self) -> int:
        """How many more handlers could begin at once."""
        return self._size - len(self._within) - sum(map(len, self._waiting.values()))

    def _learn(self, share: str, mine: int, others: int) -> None:
        part = (self._part.get(share, 0.0) + mine / (mine + others)) / 2
        if mine and not others:
            part, page = 1.0, 2 * self._page.get(share, self._threads)
        else:
            page = self._threads
        self._part[share] = part if part >= _PART else 0.0
        self._page[share] = min(page, self._size)

    def sort_sibling(self, siblings: Batch) -> bool:
        """Take siblings that may now go on, at the front; False if they need a thread."""
        job = siblings[0]
        if not self.runs(job.handler_type, job.atomic) or runs_alone(siblings):
            return False
        self._waiting.setdefault(job.share, deque()).appendleft(siblings)
        return True

    def go(self) -> None:
        """Pass waiting batches to the async worker as far as it has room."""
        going = []
        while len(self._within) < self._size and (batch := self._next()) is not None:
            self._within[id(batch)] = batch, clock.monotonic()
            going.append(batch)
        if going:
            self.async_worker.begin(going)

    def _next(self) -> Batch | None:
        for share, waiting in self._waiting.items():
            if waiting:
                batch = waiting.popleft()
                self._waiting[share] = self._waiting.pop(share)  # to the end: its next turn comes after the others
                return batch
        return None

    def leave(self, batches: Sequence[Batch]) -> None:
        """Batches have ended."""
        now = clock.monotonic()
        for batch in batches:
            _, began = self._within.pop(id(batch))
            self._throughput.note(1, now - began)

    def clear(self) -> list[Batch]:
        """Remove and return all waiting batches."""
        waiting = list(self.waiting())
        self._waiting.clear()
        return waiting

    def withdraw(self, unwanted: Callable[[Batch], bool]) -> list[Batch]:
        """Remove and return some of the waiting batches."""
        found = list(filter(unwanted, self.waiting()))
        for share, waiting in self._waiting.items() if found else ():
            self._waiting[share] = deque(batch for batch in waiting if not unwanted(batch))
        return found

    def waiting(self) -> Iterator[Batch]:
        """Batches that wait for room in the async worker."""
        for each in self._waiting.values():
            yield from each

    def within(self) -> list[Batch]:
        """Batches in the async worker."""
        return [batch for batch, _ in self._within.values()]

    @property
    def busy(self) -> int:
        """How many handlers are in the async worker."""
        return len(self._within)

    @property
    def empty(self) -> bool:
        """Nothing waits for it and nothing is in it."""
        return not self._within and not any(self._waiting.values())

    # How many jobs may be acquired.

    def limit(self, share: str) -> int:
        """The most jobs that an acquisition may lock, as far as the async worker is concerned."""
        waiting = sum(map(len, self._waiting.values()))
        part = max(self._part.get(share, 0.0), _PART if waiting else 0.0)
        if not part:
            return _NO_LIMIT
        room = self._size - len(self._within) + self._ahead() - waiting
        return max(0, int(room / part))

    def extra(self, share: str) -> int:
        """How many jobs may be acquired beyond the threads' room: the async worker has some, and its jobs come."""
        room = self._size - len(self._within)
        if not self._part.get(share) or room <= 0:
            return 0
        return min(self._page[share], room)

    def may_try(self, share: str) -> bool:
        """Whether to acquire one job although threads have no room, only to see whether it is for the async worker.

        Otherwise async jobs would wait for long jobs of threads to end. A job for threads is released at once, so that
        other nodes can acquire it, and therefore tries are rare.
        """
        rests = share in self._tried and clock.monotonic() < self._tried[share]
        return has_async_handlers() and len(self._within) < self._size and not rests

    def tries(self, share: str, granted: int) -> None:
        """An acquisition locks one job to see what it is, if a place was granted for it."""
        if granted:
            self._tried[share] = clock.monotonic() + _SELDOM
            self._trying.add(share)

    def has_tried(self, share: str) -> bool:
        """Whether the batches that arrive now were acquired only to see what they are."""
        if share not in self._trying:
            return False
        self._trying.remove(share)
        return True

    def _ahead(self) -> int:
        """How many jobs may wait for a full async worker: as many as it ends while more are fetched."""
        return max(self._threads, int(min(self._throughput.most(), 10_000) * _AHEAD))
