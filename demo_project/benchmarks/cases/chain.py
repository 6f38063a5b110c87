"""Jobs of which each leads to the next one, on an idle executor."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

from django.apps import apps
from django.db import transaction

from jobexec.conf import Settings
from jobexec.executor.job_executor import JobExecutor

from ..case import Case, Contenders
from ..measure import Sample, Stopwatch
from ..noop import Ledger, registered, wait_for
from ..processes import KEY, chain_of_tasks, processes, started
from ..raw import drain
from ..raw.queue import RawQueue
from ..raw.sql import Insert, RawConnection
from ..sandbox import tidy
from .latency import WARM_UP, Stamps


class Chain(Case):
    """One chain of ``--jobs`` jobs, each enqueued by the one before; from its commit to the start of its handler.

    ``ours, acquired`` has FOLLOW_UPS switched off. The raw loop inserts a row, locks it and deletes it. ``flow`` and
    ``process`` are the steps of one instance, of a flow and of asynchronous service tasks: from the end of a handler to
    the start of the next one, so with all that is written in between.
    """

    name: ClassVar[str] = "chain"
    summary: ClassVar[str] = "from the commit of a job to its start, for jobs that each enqueue the next one"
    default_jobs: ClassVar[int] = 200
    unit: ClassVar[str] = "ms"
    ratios = (("ours", "ours, acquired"),)

    def contenders(self) -> Contenders:
        found = {"ours": self.ours, "ours, acquired": self.ours_acquired, "raw": self.raw}
        if apps.is_installed("jobexec.processes"):
            found |= {"flow": self.flow, "process": self.process}
        return found

    def value(self, sample: Sample) -> float:
        return sample.percentile(0.5)

    def ours(self) -> Sample:
        return self._run(self.plan.settings)

    def ours_acquired(self) -> Sample:
        return self._run(self.plan.settings.replace(follow_ups=False))

    def _run(self, settings: Settings) -> Sample:
        alias, stamps, jobs = self.plan.alias, Stamps(), self.plan.jobs
        ledger = Ledger(jobs + WARM_UP)
        last = ledger.wanted - 1
        handlers: list[Any] = []

        def produce(number: int) -> None:
            with transaction.atomic(using=alias):
                transaction.on_commit(partial(stamps.commit, number), using=alias)
                handlers[0].enqueue(number)

        def step(number: int) -> None:
            stamps.start(number)
            ledger.note(number)
            if number < last:
                produce(number + 1)

        with registered(alias, step) as handler:
            handlers.append(handler)
            tidy(alias)
            executor = JobExecutor(settings)
            try:
                executor.start()
                time.sleep(0.1)
                with Stopwatch(alias) as watch:
                    produce(0)
                    ledger.wait()
                    wait_for(lambda: executor.idle, "the last job is settled")
            finally:
                executor.stop()
        ledger.check()
        return watch.sample(jobs, stamps.latencies(jobs))

    def flow(self) -> Sample:
        from jobexec.processes import chain

        def start(handler: Any, steps: int) -> None:
            chain(*(handler.s(number) for number in range(steps))).start(KEY, using=self.plan.alias)

        return self._stepped(start)

    def process(self) -> Sample:
        def start(handler: Any, steps: int) -> None:
            started(self.plan.alias, chain_of_tasks(steps, before=True))

        return self._stepped(start)

    def _stepped(self, start: Callable[[Any, int], None]) -> Sample:
        alias, stamps, jobs = self.plan.alias, Stamps(), self.plan.jobs
        ledger = Ledger(jobs + WARM_UP)
        stamps.commit(0)

        def step(number: int) -> None:
            stamps.start(number)
            ledger.note(number)
            stamps.commit(number + 1)

        with processes(alias), registered(alias, step) as handler:
            executor = JobExecutor(self.plan.settings)
            try:
                executor.start()
                time.sleep(0.1)
                with Stopwatch(alias) as watch:
                    start(handler, ledger.wanted)
                    ledger.wait()
                    wait_for(lambda: executor.idle, "the last job is settled")
            finally:
                executor.stop()
        ledger.check()
        return watch.sample(jobs, stamps.latencies(jobs))

    def raw(self) -> Sample:
        alias, stamps, jobs = self.plan.alias, Stamps(), self.plan.jobs
        with registered(alias, stamps.start) as handler:
            insert = Insert(handler, alias)
        tidy(alias)
        with RawConnection(alias) as connection, Stopwatch(alias) as watch:
            queue = RawQueue(alias, connection, 1)
            done: list[Any] = []
            for number in range(jobs + WARM_UP):
                connection.cursor.execute(insert.statement, insert.row(number))
                stamps.commit(number)
                rows = queue.turn(done)
                for row in rows:
                    stamps.start(drain.number_of(row))
                done = [row[0] for row in rows]
            queue.settle(done)
        return watch.sample(jobs, stamps.latencies(jobs))
