"""From the commit of a job to the start of its handler, on an idle executor."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import ClassVar

from django.db import transaction

from jobexec.executor.job_executor import JobExecutor
from jobexec.operations.notify import wake

from ..case import Case
from ..measure import Sample, Stopwatch
from ..noop import check_once, registered, wait_for
from ..raw.sql import Insert, RawConnection
from ..raw.worker import RawWorker

WARM_UP = 3


class Stamps:
    """When each job was committed and when its handler began, by its argument."""

    def __init__(self) -> None:
        self.committed: dict[int, float] = {}
        self.started: list[tuple[int, float]] = []

    def start(self, number: int) -> None:
        """The handler: a job begins now."""
        self.started.append((number, time.perf_counter()))

    def commit(self, number: int) -> None:
        """The job is committed now; nobody has been woken yet."""
        self.committed[number] = time.perf_counter()

    def have_started(self, jobs: int) -> bool:
        """Whether so many jobs have begun."""
        return len(self.started) >= jobs

    def latencies(self, jobs: int) -> tuple[float, ...]:
        """Seconds for each job; BenchError unless each began exactly once. What came first was warming up."""
        check_once([number for number, _ in self.started], jobs + WARM_UP, "began")
        # Never negative: an executor that polls may see the job before the commit has come back to us.
        return tuple(max(0.0, begin - self.committed[number]) for number, begin in self.started if number >= WARM_UP)


class Latency(Case):
    """One job at a time, with pauses of random length between them.

    ``ours`` is woken as from another process: by NOTIFY on PostgreSQL, by polling elsewhere. ``ours, embedded`` is
    woken as by code in its own process. The raw loop listens (PostgreSQL) or polls each WAIT_TIME.
    """

    name: ClassVar[str] = "latency"
    summary: ClassVar[str] = "from commit to the start of the handler on an idle executor, against LISTEN or polling"
    default_jobs: ClassVar[int] = 100
    unit: ClassVar[str] = "ms"

    def contenders(self) -> Mapping[str, Callable[[], Sample]]:
        return {"ours": self.ours, "raw": self.raw, "ours, embedded": self.ours_embedded}

    def value(self, sample: Sample) -> float:
        return sample.percentile(0.5)

    def ours(self, embedded: bool = False) -> Sample:
        alias, stamps, executor = self.plan.alias, Stamps(), JobExecutor(self.plan.settings)
        with registered(alias, stamps.start) as handler:

            def produce(number: int) -> None:
                with transaction.atomic(using=alias):
                    transaction.on_commit(partial(stamps.commit, number), using=alias)
                    handler.enqueue(number)

            try:
                executor.start()
                if not embedded:  # then only the database tells, as it does to an executor in another process
                    wake.remove_listener(executor.engines[alias].hear)
                return self._run(stamps, produce, lambda: executor.idle)
            finally:
                executor.stop()

    def ours_embedded(self) -> Sample:
        return self.ours(embedded=True)

    def raw(self) -> Sample:
        alias, stamps = self.plan.alias, Stamps()
        with registered(alias, stamps.start) as handler:
            insert = Insert(handler, alias)
        with RawConnection(alias) as connection, RawWorker(self.plan, stamps.start) as worker:

            def produce(number: int) -> None:
                connection.cursor.execute(insert.statement, insert.row(number))
                stamps.commit(number)
                if worker.listens:
                    connection.cursor.execute(f"NOTIFY {wake.CHANNEL}")

            return self._run(stamps, produce, lambda: worker.idle)

    def _run(self, stamps: Stamps, produce: Callable[[int], None], idle: Callable[[], bool]) -> Sample:
        jobs, longest = self.plan.jobs, self._longest_pause()
        with Stopwatch(self.plan.alias) as watch:
            for number in range(jobs + WARM_UP):
                time.sleep(random.uniform(0.01, longest))
                produce(number)
                wait_for(partial(stamps.have_started, number + 1), "a job begins")
                wait_for(idle, "a job is settled")
        return watch.sample(jobs, stamps.latencies(jobs))

    def _longest_pause(self) -> float:
        # Where the executor polls, a job may come at any moment between two polls.
        wait_time = self.plan.settings.engine(self.plan.alias).wait_time.total_seconds()
        return 0.03 if self.plan.listens else 0.03 + wait_time
