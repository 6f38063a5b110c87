"""What is measured, and what one timed run brings."""

from __future__ import annotations

import time
from dataclasses import dataclass
from types import TracebackType

from django.db import connections

from jobexec.conf import Settings


class BenchError(Exception):
    """The benchmark cannot run, or what it measured is not valid; the message says why."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure: ``jobs`` of one engine in each run, ``repeat`` runs of each contender in turn.

    ``settings`` are those of the run: this engine alone, the benchmark's category alone.
    """

    alias: str
    jobs: int
    repeat: int
    settings: Settings

    @property
    def page(self) -> int:
        """The most jobs locked in one round."""
        return self.settings.engine(self.alias).max_jobs_per_acquisition

    @property
    def listens(self) -> bool:
        """Whether executors of this engine are woken by the database and need not poll."""
        return self.settings.engine(self.alias).notify and connections[self.alias].vendor == "postgresql"


@dataclass(frozen=True, slots=True)
class Sample:
    """One timed run: seconds of wall time and of this process's CPU; ``latencies`` in seconds, one per job."""

    jobs: int
    seconds: float
    cpu: float
    latencies: tuple[float, ...] = ()

    @property
    def rate(self) -> float:
        """Jobs per second."""
        return self.jobs / self.seconds

    @property
    def cpu_per_job(self) -> float:
        """Microseconds of CPU of this process (all its threads) per job."""
        return self.cpu / self.jobs * 1e6

    def percentile(self, share: float) -> float:
        """The latency in milliseconds that ``share`` of the jobs do not exceed (nearest rank)."""
        ordered = sorted(self.latencies)
        return ordered[max(0, round(share * len(ordered)) - 1)] * 1000


class Stopwatch:
    """``with Stopwatch() as watch: ...``, then ``watch.sample(jobs)``."""

    def __enter__(self) -> Stopwatch:
        self.seconds = self.cpu = 0.0
        self._cpu_before, self._before = time.process_time(), time.perf_counter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.seconds = time.perf_counter() - self._before
        self.cpu = time.process_time() - self._cpu_before

    def sample(self, jobs: int, latencies: tuple[float, ...] = ()) -> Sample:
        """What was measured for so many jobs."""
        return Sample(jobs, self.seconds, self.cpu, latencies)
