"""Execute no-op jobs and write the whole history of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from jobexec.models import JobLog, LogState

from .. import ours
from ..case import Case, Contenders
from ..measure import BenchError, Sample
from ..noop import HANDLER, fill, registered
from ..raw import drain
from ..raw.log import LoggingQueue
from ..sandbox import overridden, tidy


class History(Case):
    """A log row for each job that ended (level ``full``), in the transaction that deletes the job."""

    name: ClassVar[str] = "history"
    summary: ClassVar[str] = "execute no-op jobs with history full, against the loop that inserts the same log rows"
    default_jobs: ClassVar[int] = 20_000
    own_settings: ClassVar[Mapping[str, Any]] = {"history_level": "full"}
    ratios = (("ours", "ours, without history"),)

    def contenders(self) -> Contenders:
        return {"ours": self.ours, "raw": self.raw, "ours, without history": self.ours_without}

    def ours(self) -> Sample:
        sample = self._execute("full")
        self._check_log()
        return sample

    def ours_without(self) -> Sample:
        return self._execute("none")

    def _execute(self, level: str) -> Sample:
        alias, ledger, settings = self.plan.alias, self.ledger(), self.plan.settings.replace(history_level=level)
        with registered(alias, ledger.note) as handler:
            fill(handler, ledger.wanted)  # with the log rows of level full in any case
            with overridden(settings):
                return ours.execute_all(settings, alias, ledger)

    def raw(self) -> Sample:
        alias, ledger = self.plan.alias, self.ledger()
        with registered(alias, ledger.note) as handler:
            fill(handler, ledger.wanted)
        tidy(alias)
        sample = drain.drain(alias, ledger, self.plan.raw_page, queue=LoggingQueue)
        self._check_log()
        ours.check_nothing_left(alias)
        return sample

    def _check_log(self) -> None:
        rows = JobLog.objects.using(self.plan.alias).filter(handler_type=HANDLER, state=LogState.SUCCESSFUL)
        written, different = rows.count(), rows.values("job_id").distinct().count()
        if not written == different == self.plan.jobs:
            raise BenchError(f"{self.plan.jobs} jobs have ended, {written} log rows say so, of {different} jobs.")
