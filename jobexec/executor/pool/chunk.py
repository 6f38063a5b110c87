"""What one thread has taken at once."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence

from jobexec import clock

from .fair_queue import Batch


class Chunk:
    """Batches that one thread runs one after the other; what it has not begun can be taken back.

    A lock of its own keeps the pool's lock out of the way from one tiny job to the next.
    """

    def __init__(self, batches: Sequence[Batch], lone: bool = False) -> None:
        self.share = batches[0][0].share
        #: Nothing runs beside its only batch.
        self.lone = lone
        #: How many jobs its thread answers for.
        self.jobs = sum(map(len, batches))
        #: The batch that runs now, and since when by the monotonic clock.
        self.current: Batch | None = None
        self.since = self.began = clock.monotonic()
        #: How many batches its thread has begun.
        self.begun = 0
        self._lock = threading.Lock()
        self._waiting = deque(batches)

    def next(self) -> Batch | None:
        """Begin the next batch; None at the end."""
        with self._lock:
            self.since = clock.monotonic()
            if not self._waiting:
                self.current = None
                return None
            self.begun += 1
            self.current = batch = self._waiting.popleft()
            return batch

    def leave(self) -> None:
        """The batch that ran has ended; the next has not begun."""
        with self._lock:
            self.current = None

    def take_back(self, share: float = 1.0) -> list[Batch]:
        """So much, rounded up, of what has not begun, the last first in line to go; in order."""
        with self._lock:
            keep = int(len(self._waiting) * (1 - share))
            taken = [self._waiting.pop() for _ in range(len(self._waiting) - keep)]
            self.jobs -= sum(map(len, taken))
            return taken[::-1]

    def batches(self) -> list[Batch]:
        """The batch that runs and those that wait."""
        with self._lock:
            return [*([self.current] if self.current else ()), *self._waiting]

    def runs(self, job: object) -> bool:
        """Whether this job is of the batch that runs."""
        with self._lock:
            return any(each is job for each in self.current or ())

    @property
    def waiting(self) -> bool:
        """Whether some have not begun."""
        return bool(self._waiting)

    @property
    def waiting_jobs(self) -> int:
        """How many jobs have not begun."""
        with self._lock:
            return sum(map(len, self._waiting))
