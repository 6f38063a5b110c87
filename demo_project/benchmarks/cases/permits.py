"""Jobs of a resource with a small limit, and very many that wait for it: how long a permit is idle."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from jobexec import clock
from jobexec.conf import Settings
from jobexec.executor.job_executor import JobExecutor
from jobexec.handlers.context import current_job
from jobexec.models import BlockedJob, Job

from ..bulk import multiply
from ..case import Case, Contenders
from ..measure import BenchError, Sample, Stopwatch
from ..noop import CATEGORY, HANDLER, Ledger, fill, registered, wait_for
from ..raw import drain
from ..sandbox import remove_everything, tidy

_NAME, _LIMIT = "jobbench", 5
_SECONDS = 0.02


class Turns:
    """When jobs began and ended, in any thread; ``wanted`` is how many permits are to be passed on."""

    def __init__(self, wanted: int) -> None:
        self.wanted = wanted
        self.began: list[float] = []
        self.ended: list[float] = []
        self._seen: list[object] = []
        self.complete = threading.Event()

    def run(self, job: object) -> None:
        """A job waits for something else."""
        self.began.append(time.perf_counter())
        self._seen.append(job)
        if len(self.began) >= self.wanted + _LIMIT:
            self.complete.set()
        time.sleep(_SECONDS)
        self.ended.append(time.perf_counter())

    def idle(self) -> tuple[float, ...]:
        """Seconds from the end of each job to the beginning of the one that has its permit.

        BenchError if a job began twice.
        """
        twice = len(self._seen) - len(set(self._seen))
        if twice:
            raise BenchError(f"Not each job began exactly once: {twice} of {len(self._seen)} began again.")
        began, ended = sorted(self.began)[_LIMIT : self.wanted + _LIMIT], sorted(self.ended)[: self.wanted]
        return tuple(max(0.0, begin - end) for begin, end in zip(began, ended, strict=True))


class Permits(Case):
    """The first ``--jobs`` of ``--blocked`` jobs, of which five may run at once; each takes 20 ms.

    The figure is how long a permit is idle, from the end of a handler to the start of the next. ``ours, acquired`` has
    FOLLOW_UPS switched off. The raw loop has five connections and takes a job after the other on each.
    """

    name: ClassVar[str] = "permits"
    summary: ClassVar[str] = "how long a permit is idle between two jobs of a resource with a limit of 5"
    default_jobs: ClassVar[int] = 500
    unit: ClassVar[str] = "ms"
    own_settings: ClassVar[Mapping[str, Any]] = {"resources": {_NAME: {"limit": _LIMIT}}}
    ratios = (("ours", "ours, acquired"),)

    def contenders(self) -> Contenders:
        return {"ours": self.ours, "ours, acquired": self.ours_acquired, "raw": self.raw}

    def value(self, sample: Sample) -> float:
        return sample.percentile(0.5)

    def facts(self) -> Mapping[str, Any]:
        return {"blocked": self._blocked, "limit": _LIMIT}

    @property
    def _blocked(self) -> int:
        return max(self.plan.jobs + _LIMIT, int(self.plan.options.get("blocked") or 0))

    def ours(self) -> Sample:
        return self._run(self.plan.settings)

    def ours_acquired(self) -> Sample:
        return self._run(self.plan.settings.replace(follow_ups=False))

    def _run(self, settings: Settings) -> Sample:
        alias, turns = self.plan.alias, Turns(self.plan.jobs)

        def run(number: int) -> None:
            context = current_job()
            turns.run(context.id if context is not None else number)

        with registered(alias, run):
            self._fill()
            executor = JobExecutor(settings)
            try:
                with Stopwatch(alias) as watch:
                    executor.start()
                    wait_for(turns.complete.is_set, "the jobs have run")
            finally:
                executor.stop()
                remove_everything(alias)
        return watch.sample(self.plan.jobs, turns.idle())

    def _fill(self) -> None:
        now = clock.now(self.plan.alias)
        arguments = {"args": [0], "kwargs": {}}
        columns = {"handler_type": HANDLER, "handler_configuration": arguments, "category": CATEGORY}
        row = BlockedJob(resource=_NAME, rank=int(now.timestamp() * 1000), create_time=now, **columns)
        row.save(using=self.plan.alias, force_insert=True)
        multiply(row, self._blocked)
        tidy(self.plan.alias, BlockedJob, Job)

    def raw(self) -> Sample:
        alias, turns, ledger = self.plan.alias, Turns(self.plan.jobs), Ledger(self.plan.jobs + _LIMIT)

        def run(number: int) -> None:
            turns.run(number)
            ledger.note(number)

        with registered(alias, ledger.note) as handler:
            fill(handler, ledger.wanted)
        tidy(alias)
        sample = drain.drain(alias, ledger, 1, drain.calling(run), _LIMIT)
        ledger.check()
        return replace(sample, jobs=self.plan.jobs, latencies=turns.idle())
