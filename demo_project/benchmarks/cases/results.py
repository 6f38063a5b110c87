"""Execute no-op jobs and keep what each returned."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from jobexec.handlers import registry
from jobexec.handlers.function import JobFunction
from jobexec.models import ResultStatus, TaskResult

from .. import ours
from ..case import Case, Contenders
from ..measure import BenchError, Sample
from ..noop import CATEGORY, HANDLER, Ledger, fill, registered
from ..raw import drain
from ..raw.result import ResultQueue
from ..sandbox import tidy


class Results(Case):
    """A row of results for each job, in the transaction that deletes its job; beside it the same as plain jobs."""

    name: ClassVar[str] = "results"
    summary: ClassVar[str] = "execute no-op jobs and keep their results, against the loop that inserts the same rows"
    default_jobs: ClassVar[int] = 20_000
    ratios = (("ours", "ours, without results"),)

    def contenders(self) -> Contenders:
        return {"ours": self.ours, "raw": self.raw, "ours, without results": self.ours_without}

    def ours(self) -> Sample:
        alias, ledger = self.plan.alias, self.ledger()
        with _kept(alias, ledger) as handler:
            fill(handler, ledger.wanted)
            sample = ours.execute_all(self.plan.settings, alias, ledger)
        self._check()
        return sample

    def ours_without(self) -> Sample:
        alias, ledger = self.plan.alias, self.ledger()
        with registered(alias, ledger.note) as handler:
            fill(handler, ledger.wanted)
            return ours.execute_all(self.plan.settings, alias, ledger)

    def raw(self) -> Sample:
        alias, ledger = self.plan.alias, self.ledger()
        with _kept(alias, ledger) as handler:
            fill(handler, ledger.wanted)
        tidy(alias)
        sample = drain.drain(alias, ledger, self.plan.raw_page, queue=ResultQueue)
        self._check()
        ours.check_nothing_left(alias)
        return sample

    def _check(self) -> None:
        rows = TaskResult.objects.using(self.plan.alias).filter(handler_type=HANDLER, status=ResultStatus.SUCCESSFUL)
        if rows.count() != self.plan.jobs:
            raise BenchError(f"{self.plan.jobs} jobs have ended, {rows.count()} results say so.")


@contextmanager
def _kept(alias: str, ledger: Ledger) -> Iterator[JobFunction[[int], None]]:
    def noop(number: int) -> int:
        ledger.note(number)
        return number

    with registry.isolated():
        options: Any = {"category": CATEGORY, "atomic": False, "database": alias}
        handler: JobFunction[[int], None] = JobFunction(noop, HANDLER, (), False, options, (), keep_result=True)
        registry.register(handler)
        yield handler
