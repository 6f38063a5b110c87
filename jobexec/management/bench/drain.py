"""Execute a table full of no-op jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

from jobexec.executor.job_executor import JobExecutor

from .case import Case
from .measure import BenchError, Sample, Stopwatch
from .noop import Ledger, fill, registered, wait_for
from .raw import RawConnection
from .raw_queue import RawQueue
from .sandbox import jobs_left, tidy


class Drain(Case):
    """The executor as it is, embedded in this process, against a loop that locks a page and deletes it.

    Timed from the start of the executor, with its registration and its threads, until the last job is settled.
    """

    name: ClassVar[str] = "drain"
    summary: ClassVar[str] = "execute no-op jobs, against a loop that locks and deletes the same rows"
    default_jobs: ClassVar[int] = 20_000

    def contenders(self) -> Mapping[str, Callable[[], Sample]]:
        return {"ours": self.ours, "raw": self.raw}

    def ours(self) -> Sample:
        alias, ledger = self.plan.alias, Ledger(self.plan.jobs)
        with registered(alias, ledger.note) as handler:
            fill(handler, self.plan.jobs)
            tidy(alias)
            executor = JobExecutor(self.plan.settings)
            try:
                with Stopwatch() as watch:
                    executor.start()
                    ledger.wait()
                    wait_for(lambda: executor.idle, "the executor settles what it has run")
            finally:
                executor.stop()
        ledger.check()
        self._check_empty()
        return watch.sample(self.plan.jobs)

    def raw(self) -> Sample:
        alias, seen = self.plan.alias, []
        with registered(alias, Ledger(self.plan.jobs).note) as handler:
            fill(handler, self.plan.jobs)
        tidy(alias)
        with RawConnection(alias) as connection:
            queue = RawQueue(alias, connection, self.plan.page)
            with Stopwatch() as watch:
                while rows := queue.lock():
                    ids = [row[0] for row in rows]
                    seen.extend(ids)  # this is the no-op job
                    queue.delete(ids)
        if not len(seen) == len(set(seen)) == self.plan.jobs:
            raise BenchError(f"Raw SQL: {self.plan.jobs} jobs, {len(seen)} taken, {len(set(seen))} different ones.")
        self._check_empty()
        return watch.sample(self.plan.jobs)

    def _check_empty(self) -> None:
        left = jobs_left(self.plan.alias)
        if left:
            raise BenchError(f"{left} jobs are still there after the drain.")
