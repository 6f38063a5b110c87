"""What is measured, and what one timed run brings."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from django.db import connections

from jobexec.conf import Settings

from .server_cpu import ServerCpu

#: The page of the raw SQL where none is given: with larger ones it gains nothing any more.
RAW_PAGE = 500


class BenchError(Exception):
    """The benchmark cannot run, or what it measured is not valid; the message says why."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure: ``jobs`` of one engine in each run, ``repeat`` runs of each contender in turn.

    ``settings`` are those of the run: this engine alone, the benchmark's category alone. ``raw_page`` is how many jobs
    the raw SQL locks in one round; ``overrides`` are the settings that the command line gives, as other processes get
    them; ``options`` are those that only some cases have, by name.
    """

    alias: str
    jobs: int
    repeat: int
    settings: Settings
    raw_page: int = RAW_PAGE
    overrides: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def page(self) -> int:
        """The most jobs that ours locks in one round."""
        return self.settings.engine(self.alias).max_jobs_per_acquisition

    @property
    def listens(self) -> bool:
        """Whether executors of this engine are woken by the database and need not poll."""
        return self.settings.engine(self.alias).notify and connections[self.alias].vendor == "postgresql"


@dataclass(frozen=True, slots=True)
class Sample:
    """One timed run: seconds of wall time and of our own CPU; ``latencies`` in seconds, one per job.

    ``server``: seconds of the database server's CPU, None if it does not tell. ``figures``: what else the case counts,
    by name. ``timeline``: values at equal distances, for a chart.
    """

    jobs: int
    seconds: float
    cpu: float
    latencies: tuple[float, ...] = ()
    server: float | None = None
    figures: Mapping[str, float] = field(default_factory=dict)
    timeline: tuple[float, ...] = ()

    @property
    def rate(self) -> float:
        """Jobs per second."""
        return self.jobs / self.seconds

    @property
    def cpu_per_job(self) -> float:
        """Microseconds of our own CPU (all threads of all our processes) per job."""
        return self.cpu / self.jobs * 1e6

    @property
    def server_per_job(self) -> float | None:
        """Microseconds of the database server's CPU per job."""
        return None if self.server is None else self.server / self.jobs * 1e6

    def percentile(self, share: float) -> float:
        """The latency in milliseconds that ``share`` of the jobs do not exceed (nearest rank)."""
        ordered = sorted(self.latencies)
        return ordered[max(0, round(share * len(ordered)) - 1)] * 1000


class Stopwatch:
    """``with Stopwatch(alias) as watch: ...``, then ``watch.sample(jobs)``.

    Leave the block before connections are closed: the server's CPU is read from those that are there at its end.
    """

    def __init__(self, alias: str) -> None:
        self._server = ServerCpu(alias)

    def __enter__(self) -> Stopwatch:
        self.seconds = self.cpu = 0.0
        self._server.start()
        self._cpu_before, self._before = time.process_time(), time.perf_counter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.seconds = time.perf_counter() - self._before
        self.cpu = time.process_time() - self._cpu_before
        if error is None:
            self._server.look()

    def look(self) -> None:
        """Read the server's CPU meanwhile, in runs during which connections may be closed."""
        self._server.look()

    def sample(self, jobs: int, latencies: tuple[float, ...] = (), **more: Any) -> Sample:
        """What was measured for so many jobs; ``more`` are further fields of the sample."""
        values = {"seconds": self.seconds, "cpu": self.cpu, "server": self._server.seconds} | more
        return Sample(jobs, latencies=latencies, **values)
