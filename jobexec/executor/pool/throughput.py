"""Measures how long jobs take here, and how many are worth holding at a time."""

from __future__ import annotations

_AHEAD = 1.0  # seconds of work that a node keeps for itself
_CHUNK = 0.0025  # seconds of work that a thread takes at once
_UNKNOWN = 20  # jobs beside those in threads before anything is measured; or two for each thread, if that is more
_WEIGHT = 0.2  # seconds after which half of the earlier measurement is forgotten
_FEW = 10.0  # and jobs after which it is


class Throughput:
    """The average time of a job in a thread, weighted towards recent ones. Plain counting, under the pool's lock.

    Tiny jobs travel in hundreds, and slow ones are not hoarded from other nodes: a node holds as many as it does in
    about a second.
    """

    def __init__(self, threads: int) -> None:
        self._threads = threads
        #: Seconds; None until the first job has ended.
        self.seconds: float | None = None

    def note(self, jobs: int, seconds: float) -> None:
        """A thread was busy for ``seconds`` with ``jobs`` jobs."""
        if not jobs:
            return
        each = seconds / jobs
        weight = max(1 - 0.5 ** (seconds / _WEIGHT), jobs / (jobs + _FEW))
        self.seconds = each if self.seconds is None else self.seconds + (each - self.seconds) * weight

    def most(self) -> int:
        """How many jobs, including running ones, are a second's work; ignores the room in the queue."""
        if self.seconds is None:
            return self._threads + max(_UNKNOWN, 2 * self._threads)
        return int(min(_AHEAD * self._threads / max(self.seconds, 1e-7), 1e7))

    def chunk(self) -> int:
        """How many jobs a thread takes at once: 1, unless they are tiny."""
        return 1 if self.seconds is None else max(1, int(_CHUNK / max(self.seconds, 1e-7)))

    def within(self, seconds: float) -> int:
        """How many jobs one thread does in this time; 0 as long as nothing is known."""
        return 0 if self.seconds is None else int(min(seconds / max(self.seconds, 1e-7), 1e7))

    def threads_for(self, jobs: int) -> int:
        """How many threads are useful for ``jobs`` waiting jobs: few if these are tiny, as there is one interpreter."""
        if self.seconds is None:
            return self._threads
        return min(self._threads, 1 + int(jobs * self.seconds / _CHUNK))
