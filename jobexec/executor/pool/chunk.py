"""The batches that one thread takes at once."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from jobexec import clock

from .fair_queue import Batch, Kind


class Chunk:
    """Batches that one thread runs one after another; those it has not started can be taken back.

    Its own lock keeps the thread off the pool's lock between two tiny jobs.
    """

    def __init__(self, batches: Sequence[Batch], lone: bool = False, kind: Kind = Kind.PLAIN) -> None:
        self.share = batches[0][0].share
        #: No other job runs beside its only batch.
        self.lone = lone
        #: That of its first batch; PLAIN if it is the only one.
        self.kind = kind
        #: How many jobs its thread is responsible for.
        self.jobs = sum(map(len, batches))
        #: The batch that runs now, and its start by the monotonic clock.
        self.current: Batch | None = None
        self.since = self.began = clock.monotonic()
        #: The CPU time of its thread at the beginning, in seconds; to be made by that thread.
        self.cpu = time.thread_time()
        #: How many batches its thread has started.
        self.begun = 0
        self._lock = threading.Lock()
        self._waiting = deque(batches)
        #: Those that run together with the current batch.
        self.beside: list[Batch] = []

    def next(self) -> Batch | None:
        """Start the next batch; None at the end."""
        with self._lock:
            self.since = clock.monotonic()
            if self.beside:
                self.beside = []
            if not self._waiting:
                self.current = None
                return None
            self.begun += 1
            self.current = batch = self._waiting.popleft()
            return batch

    def more(self, fits: Callable[[Batch], bool]) -> list[Batch]:
        """Start the next batches too, as long as they fit, to run them together with the current one."""
        with self._lock:
            while self._waiting and fits(self._waiting[0]):
                self.beside.append(self._waiting.popleft())
            self.begun += len(self.beside)
            return list(self.beside)

    def give_back(self, batches: Sequence[Batch]) -> None:
        """These have not run together with others: they are the next again."""
        with self._lock:
            self._waiting.extendleft(reversed(batches))
            self.begun -= len(batches)
            if any(each is self.current for each in batches):
                self.current = None
            self.beside = [batch for batch in self.beside if not any(each is batch for each in batches)]

    def leave(self) -> list[Batch]:
        """The running batches have ended; the next has not started. Returns those that have ended."""
        with self._lock:
            ended = self._running()
            self.current, self.beside = None, []
            return ended

    def _running(self) -> list[Batch]:
        return [*([self.current] if self.current else ()), *self.beside]

    def take_back(self, share: float = 1.0) -> list[Batch]:
        """Remove this share, rounded up, of the batches not started, from the end; returns them in order."""
        with self._lock:
            keep = int(len(self._waiting) * (1 - share))
            taken = [self._waiting.pop() for _ in range(len(self._waiting) - keep)]
            self.jobs -= sum(map(len, taken))
            return taken[::-1]

    def batches(self) -> list[Batch]:
        """The batches that run and those that wait."""
        with self._lock:
            return [*self._running(), *self._waiting]

    def runs(self, job: object) -> bool:
        """Whether this job belongs to the running batch."""
        with self._lock:
            return any(each is job for each in self.current or ())

    @property
    def waiting(self) -> bool:
        """Whether some batches have not started."""
        return bool(self._waiting)

    @property
    def waiting_jobs(self) -> int:
        """How many jobs have not started."""
        with self._lock:
            return sum(map(len, self._waiting))
