"""Execute jobs while a transaction is held open elsewhere: no dead row can be removed until it ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from typing import ClassVar

from jobexec.models import Job

from ... import ours
from ...case import Case, Contenders
from ...measure import Sample
from ...noop import Ledger, fill, registered
from ...raw import drain
from ...raw.queue import RawQueue
from ...raw.resuming import ResumingQueue
from ...raw.sql import RawConnection
from ...report import Shown
from ...sampler import Sampler
from ...sandbox import tidy

_PARTS = 20
_LOOK = 0.01
_BEGIN = {
    "postgresql": "BEGIN ISOLATION LEVEL REPEATABLE READ",
    "mysql": "START TRANSACTION WITH CONSISTENT SNAPSHOT",
    "sqlite": "BEGIN",
}


class Bloat(Case):
    """A drain in twentieths: whether the last ones are as fast as the first.

    ``raw`` looks for each page from the beginning, as the plain statement does; ``raw, resumed`` goes on where its last
    page ended.
    """

    name: ClassVar[str] = "bloat"
    summary: ClassVar[str] = "execute no-op jobs while a transaction elsewhere keeps dead rows from being removed"
    default_jobs: ClassVar[int] = 200_000
    ratios = (("ours", "raw, resumed"),)
    shown = Shown(
        {"first_tenth": "jobs/s", "last_tenth": "jobs/s", "last_to_first": ""},
        across="twentieths of the jobs",
        up="jobs per second",
    )

    def contenders(self) -> Contenders:
        return {"ours": self.ours, "raw": self.raw, "raw, resumed": self.raw_resumed}

    def ours(self) -> Sample:
        alias, ledger = self.plan.alias, self.ledger()
        with registered(alias, ledger.note) as handler:
            fill(handler, ledger.wanted)
            tidy(alias)
            return self._watched(ledger, lambda: ours.execute(self.plan.settings, alias, ledger))

    def raw_resumed(self) -> Sample:
        return self.raw(ResumingQueue)

    def raw(self, queue: drain.Queue = RawQueue) -> Sample:
        alias, ledger = self.plan.alias, self.ledger()
        with registered(alias, ledger.note) as handler:
            fill(handler, ledger.wanted)
        tidy(alias)
        return self._watched(ledger, lambda: drain.drain(alias, ledger, self.plan.raw_page, queue=queue))

    def _watched(self, ledger: Ledger, run: Callable[[], Sample]) -> Sample:
        with snapshot_held(self.plan.alias), Sampler(ledger.count, _LOOK) as pace:
            sample = run()
        ours.check_nothing_left(self.plan.alias)
        rates = rates_of(pace, ledger.wanted)
        first, last = sum(rates[:2]) / 2, sum(rates[-2:]) / 2
        figures = {"first_tenth": first, "last_tenth": last, "last_to_first": last / first if first else 0.0}
        return replace(sample, figures=figures, timeline=tuple(rates))


@contextmanager
def snapshot_held(alias: str) -> Iterator[None]:
    """Another connection's transaction sees the table of jobs as it is now, until the block ends."""
    with RawConnection(alias) as connection:
        connection.cursor.execute(_BEGIN[connection.vendor])
        connection.execute(f"SELECT COUNT(*) FROM {Job._meta.db_table}").fetchall()
        try:
            yield
        finally:
            connection.execute("ROLLBACK")


def rates_of(pace: Sampler, jobs: int) -> Sequence[float]:
    """Jobs per second in each twentieth of the jobs, without the time in which none had run yet."""
    begun = max((time for time, count in zip(pace.times, pace.values, strict=True) if not count), default=0.0)
    marks = [begun, *(pace.when(jobs * part / _PARTS) for part in range(1, _PARTS + 1))]
    spans = [max(1e-6, later - earlier) for earlier, later in pairwise(marks)]
    return [jobs / _PARTS / span for span in spans]
