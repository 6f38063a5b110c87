"""Execute no-op jobs as one batch of jobs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, ClassVar

import jobexec
from jobexec.models import Batch
from jobexec.operations import delete_batch

from .. import ours
from ..case import Case, Contenders
from ..measure import BenchError, Sample
from ..noop import CompactLedger, Ledger, fill, registered, wait_for
from ..raw import drain
from ..report import Shown
from ..sampler import Sampler, give_back_memory, memory
from ..sandbox import tidy

_LOOK = 0.2


class Children(Case):
    """The drain, of jobs that are children of one batch; also of the same jobs without a batch.

    The figure ``end`` is the time from the run of the last child to the end of the batch, as another connection sees
    it; ``memory_growth`` is what the process needs more than before it adds the children, at most, until the end.
    """

    name: ClassVar[str] = "children"
    summary: ClassVar[str] = "execute no-op jobs as one batch, against jobs without a batch"
    default_jobs: ClassVar[int] = 20_000
    own_settings: ClassVar[Mapping[str, Any]] = {"batch_poll_time": 60.0}
    shown: ClassVar[Shown] = Shown({"end": "ms", "memory_growth": "MB"})
    ratios: ClassVar = (("ours", "no batch"),)

    def contenders(self) -> Contenders:
        return {"ours": self.ours, "no batch": self.without, "raw": self.raw}

    def ledger(self, jobs: int | None = None) -> Ledger:
        """One that does not grow while the memory is looked at."""
        ledger = CompactLedger(jobs or self.plan.jobs)
        self.progress.follow(ledger.count, ledger.wanted)
        return ledger

    def ours(self) -> Sample:
        alias, ledger = self.plan.alias, self.ledger()
        last: list[float] = []

        def note(number: int) -> None:
            ledger.note(number)
            if ledger.complete.is_set():
                last.append(time.perf_counter())

        give_back_memory()
        with registered(alias, note) as handler, Sampler(memory, _LOOK) as sizes:
            with jobexec.batch(using=alias) as batch:
                batch.add_many(handler.s(number) for number in range(self.plan.jobs))
            tidy(alias)

            def figures() -> dict[str, float]:
                over = Batch.objects.using(alias).filter(pk=batch.id, end_time__isnull=False)
                wait_for(lambda: over.exists(), "the batch is over")
                end = 1000 * (time.perf_counter() - max(last))
                return {"end": end, "memory_growth": max(sizes.values) - sizes.values[0]}

            try:
                sample = ours.execute(self.plan.settings, alias, ledger, figures)
                if batch.progress().completed != self.plan.jobs:
                    raise BenchError(f"Expected a batch of {self.plan.jobs} completed jobs, got {batch.progress()}.")
            finally:
                delete_batch(batch.id, using=alias)
        ours.check_nothing_left(alias)
        return sample

    def without(self) -> Sample:
        ledger = self.ledger()
        with registered(self.plan.alias, ledger.note) as handler:
            fill(handler, self.plan.jobs)
            return ours.execute_all(self.plan.settings, self.plan.alias, ledger)

    def raw(self) -> Sample:
        alias, ledger = self.plan.alias, self.ledger()
        with registered(alias, ledger.note) as handler:
            fill(handler, self.plan.jobs)
        tidy(alias)
        sample = drain.drain(alias, ledger, self.plan.raw_page, None)
        ours.check_nothing_left(alias)
        return sample
