"""Figures that are looked at again and again during a run, by a thread of its own."""

from __future__ import annotations

import ctypes
import gc
import os
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from types import TracebackType

from jobexec.runtime.threads import spawn

_STATM = Path("/proc/self/statm")
_MB = 1024 * 1024


def memory() -> float:
    """What this process has in memory now, in megabytes (RSS); 0 where the operating system does not tell."""
    try:
        return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / _MB
    except OSError:
        return 0.0


def give_back_memory() -> None:
    """Let the operating system have what this process has freed, so that it is not taken for room that is in use."""
    gc.collect()
    with suppress(OSError, AttributeError):  # of glibc alone
        ctypes.CDLL(None).malloc_trim(0)


class Sampler(AbstractContextManager["Sampler"]):
    """Calls ``look`` every ``period`` seconds during the block, and at its beginning and its end.

    ``times`` are seconds since the beginning, ``values`` what it found then.
    """

    def __init__(self, look: Callable[[], float], period: float) -> None:
        self._look, self._period = look, period
        self.times: list[float] = []
        self.values: list[float] = []
        self._ended = threading.Event()

    def __enter__(self) -> Sampler:
        self._began = time.perf_counter()
        self._take()
        self._thread = spawn("jobbench-sampler", self._run)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
        self._take()

    def _run(self) -> None:
        while not self._ended.wait(self._period):
            self._take()

    def _take(self) -> None:
        self.times.append(time.perf_counter() - self._began)
        self.values.append(self._look())

    def when(self, value: float) -> float:
        """When a figure that only grows had reached ``value``; between two looks it grows evenly."""
        place = min(max(1, bisect_left(self.values, value)), len(self.values) - 1)
        before, after = self.values[place - 1], self.values[place]
        share = (value - before) / (after - before) if after > before else 1.0
        return self.times[place - 1] + min(1.0, share) * (self.times[place] - self.times[place - 1])

    def at(self, moment: float) -> float:
        """The figure at that moment, by the last look before."""
        return self.values[max(0, bisect_left(self.times, moment + 1e-9) - 1)]


def slope(across: Sequence[float], up: Sequence[float]) -> float:
    """How much ``up`` grows with ``across``, by the line that fits best (least squares); 0 if it cannot be told."""
    middle_across, middle_up = sum(across) / len(across), sum(up) / len(up)
    spread = sum((each - middle_across) ** 2 for each in across)
    together = sum((x - middle_across) * (y - middle_up) for x, y in zip(across, up, strict=True))
    return together / spread if spread else 0.0
