"""Enqueue and execute for a long time: whether the memory stays as it is."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

from jobexec.executor.job_executor import JobExecutor
from jobexec.runtime.threads import spawn

from ... import ours
from ...case import Case, Contenders
from ...measure import Sample, Stopwatch
from ...noop import CompactLedger, Ledger, registered, wait_for
from ...raw.drain import Loop, calling, check_loops
from ...raw.resuming import ResumingQueue
from ...raw.sql import Insert, RawConnection
from ...report import Shown
from ...sampler import Sampler, memory, slope
from .retries import silent

_BATCH = 500
_AHEAD = 5_000
#: One job in so many fails at its first attempt and is retried, so that what failures leave behind is seen, too.
_FAILS_EVERY = 20
_TURN = 0.002
_LOOK = 1.0
_POINTS = 100


class Soak(Case):
    """Jobs come in batches, and never more than 5,000 wait; the memory is looked at each second.

    One of our jobs in twenty fails once and is retried; the raw loop has no retries. ``growth_per_job`` is the slope of
    the line that fits the memory best, after the first fifth of the jobs: what grows with the number of jobs would
    leak.
    """

    name: ClassVar[str] = "soak"
    summary: ClassVar[str] = "enqueue and execute for a long time: rate and growth of memory, against the same in SQL"
    default_jobs: ClassVar[int] = 1_000_000
    default_repeat: ClassVar[int] = 1
    shown = Shown(
        {"memory_begin": "MB", "memory_end": "MB", "growth_per_job": "bytes"},
        across="hundredths of the jobs",
        up="megabytes of memory",
    )

    def contenders(self) -> Contenders:
        return {"ours": self.ours, "raw": self.raw}

    def ours(self) -> Sample:
        alias, ledger = self.plan.alias, self._ledger()
        tried = bytearray(ledger.wanted)

        def run(number: int) -> None:
            if number % _FAILS_EVERY == 0 and not tried[number]:
                tried[number] = 1
                raise ConnectionError(f"The service did not answer request {number}.")
            ledger.note(number)

        with registered(alias, run, retries="R3/PT0.1S") as handler, silent():

            def produce(numbers: range) -> None:
                handler.enqueue_many([(each,) for each in numbers])

            executor = JobExecutor(self.plan.settings)
            try:
                executor.start()
                sample = self._watched(ledger, produce, lambda: executor.idle)
            finally:
                executor.stop()
        self._check(ledger)
        return sample

    def raw(self) -> Sample:
        alias, ledger = self.plan.alias, self._ledger()
        with registered(alias, ledger.note) as handler:
            insert = Insert(handler, alias)
        with RawConnection(alias) as producer, RawConnection(alias) as consumer:
            # All come in order from one producer, so it may go on where it was.
            worker = _Worker(Loop(ResumingQueue(alias, consumer, self.plan.raw_page), calling(ledger.note)), ledger)
            thread = spawn("jobbench-raw", worker)
            try:
                sample = self._watched(
                    ledger,
                    lambda numbers: insert.many(producer, [insert.row(each) for each in numbers]),
                    lambda: not thread.is_alive(),
                )
            finally:
                worker.stopping = True
                thread.join()
        check_loops([worker.loop])
        self._check(ledger)
        return sample

    def _ledger(self) -> CompactLedger:
        ledger = CompactLedger(self.plan.jobs)
        self.progress.follow(ledger.count, ledger.wanted)
        return ledger

    def _check(self, ledger: Ledger) -> None:
        ledger.check()
        ours.check_nothing_left(self.plan.alias)

    def _watched(self, ledger: Ledger, produce: Callable[[range], object], settled: Callable[[], bool]) -> Sample:
        with (
            Stopwatch(self.plan.alias) as watch,
            Sampler(memory, _LOOK) as sizes,
            Sampler(ledger.count, _LOOK) as counts,
        ):
            self._produce_all(ledger, produce, watch)
            ledger.wait()
            wait_for(settled, "the last jobs are settled")
        jobs = ledger.wanted
        done = [counts.at(moment) for moment in sizes.times]
        later = [place for place, count in enumerate(done) if count >= jobs / 5]
        growth = slope([done[place] for place in later], [sizes.values[place] for place in later]) * 1024 * 1024
        figures = {"memory_begin": sizes.values[0], "memory_end": sizes.values[-1], "growth_per_job": growth}
        points = min(_POINTS, jobs)
        line = tuple(sizes.at(counts.when(jobs * part / points)) for part in range(1, points + 1))
        return replace(watch.sample(jobs), figures=figures, timeline=line)

    def _produce_all(self, ledger: Ledger, produce: Callable[[range], object], watch: Stopwatch) -> None:
        jobs, looked = ledger.wanted, time.monotonic()
        for start in range(0, jobs, _BATCH):
            wait_for(lambda start=start: start - ledger.count() < _AHEAD, "jobs are executed", turn=_TURN)  # type: ignore[misc]
            produce(range(start, min(jobs, start + _BATCH)))
            if time.monotonic() - looked > _LOOK:  # connections may come and go meanwhile
                watch.look()
                looked = time.monotonic()


class _Worker:
    """Runs a raw loop until all jobs have run: it ends each time when the table is empty."""

    def __init__(self, loop: Loop, ledger: Ledger) -> None:
        self.loop, self._ledger = loop, ledger
        self.stopping = False

    def __call__(self) -> None:
        while not (self.stopping or self.loop.error or self._ledger.complete.is_set()):
            self.loop()
            time.sleep(_TURN)
