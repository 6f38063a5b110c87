"""Finds out how many threads may be busy at once before they only fight for the interpreter."""

from __future__ import annotations

import time
from collections.abc import Callable

_FEW = 2  # threads, of which one runs jobs while the other waits for a commit or a file
_WINDOW = 0.05  # seconds; about twenty chunks of tiny jobs
_FULL, _SPARE, _PARALLEL = 0.85, 0.75, 1.25  # cores that the process uses
_OF_JOBS = 1 / 3  # of the CPU time: with less, something else in the process needs the interpreter
_BETTER = 1.1  # of the jobs done in the same time, which varies by some percent
_WEIGHT = 0.3  # of the latest window
_HOLD, _LONGEST_HOLD = 0.25, 8.0  # seconds until few threads are tried again
_LOOK = 2.0  # seconds after which it is tried whether more threads do more


class Contention:
    """The most threads that may be busy. Plain counting, under the pool's lock.

    A thread that makes a system call gives the interpreter away, and must then wait for it: with many busy threads, a
    tiny job takes two to four times as much CPU time as with few. While the process uses a whole core, few are tried
    for a moment, and kept if they do more jobs. If it uses less, the jobs wait for something else than the interpreter;
    if it uses more, they compute without it; then twice as many may be busy. Of a few, twice as many are tried now and
    then.

    CPU time alone does not show it: threads that fight use a whole core, and so do as many that wait and compute.
    """

    def __init__(self, threads: int, process_time: Callable[[], float] = time.process_time) -> None:
        self._threads, self._process_time = threads, process_time
        self.most = threads
        self._since = self._used = 0.0
        self._jobs, self._of_jobs = 0, 0.0
        #: Jobs in a second with ``most`` threads; 0 if that is not known yet.
        self._rate = 0.0
        #: While another number is tried: the usual one.
        self._usual: int | None = None
        #: For how long, and until when, few threads are not tried again.
        self._hold, self._not_before = _HOLD, 0.0
        self._look_at = 0.0

    def note(self, jobs: int, cpu: float, now: float) -> None:
        """A thread has done these jobs, in ``cpu`` seconds of CPU time."""
        self._jobs += jobs
        self._of_jobs += cpu
        elapsed = now - self._since
        if elapsed < _WINDOW:
            return
        used = self._process_time()
        process = used - self._used
        rate, busy = self._jobs / elapsed, self._of_jobs >= _OF_JOBS * process
        self._since, self._used, self._jobs, self._of_jobs = now, used, 0, 0.0
        self._judge(rate, process / elapsed, busy, now)

    def _judge(self, rate: float, cores: float, busy: bool, now: float) -> None:
        if self._usual is not None:
            self._decide(rate, now)
            return
        self._rate += (rate - self._rate) * (_WEIGHT if self._rate else 1)
        if cores < _SPARE or cores > _PARALLEL or not busy:
            if self.most < self._threads:
                self._set(2 * self.most, now)
        elif self.most > _FEW and cores >= _FULL and now >= self._not_before:
            self._try(_FEW)
        elif self.most < self._threads and now >= self._look_at:
            self._try(2 * self.most)

    def _try(self, number: int) -> None:
        self._usual, self.most = self.most, min(number, self._threads)

    def _decide(self, rate: float, now: float) -> None:
        usual, tried = self._usual, self.most
        assert usual is not None
        better = rate >= self._rate * _BETTER
        if tried < usual:
            self._hold = _HOLD if better else min(2 * self._hold, _LONGEST_HOLD)
            self._not_before = now + self._hold
        if better:
            self._set(tried, now, rate)
        else:
            self.most, self._usual = usual, None
            if tried > usual:
                self._look_at = now + _LOOK

    def _set(self, number: int, now: float, rate: float = 0.0) -> None:
        self.most, self._rate, self._usual, self._look_at = min(number, self._threads), rate, None, now + _LOOK
