"""Enqueue many in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

from ..case import Case
from ..measure import Sample, Stopwatch
from ..noop import Ledger, check_table, registered
from ..raw.sql import Insert, RawConnection


class EnqueueMany(Case):
    """``enqueue_many()``, against COPY (PostgreSQL) or executemany of the same rows, made beforehand."""

    name: ClassVar[str] = "enqueue_many"
    summary: ClassVar[str] = "enqueue_many() in one transaction, against COPY or executemany of the same rows"
    default_jobs: ClassVar[int] = 20_000

    def contenders(self) -> Mapping[str, Callable[[], Sample]]:
        return {"ours": self.ours, "raw": self.raw}

    def ours(self) -> Sample:
        alias, jobs = self.plan.alias, self.plan.jobs
        with registered(alias, Ledger(jobs).note) as handler, Stopwatch(alias) as watch:
            handler.enqueue_many([(number,) for number in range(jobs)])
        check_table(alias, jobs)
        return watch.sample(jobs)

    def raw(self) -> Sample:
        alias, jobs = self.plan.alias, self.plan.jobs
        with registered(alias, Ledger(jobs).note) as handler:
            insert = Insert(handler, alias)
        rows = [insert.row(number) for number in range(jobs)]
        with RawConnection(alias) as connection, Stopwatch(alias) as watch:
            insert.many(connection, rows)
        check_table(alias, jobs)
        return watch.sample(jobs)
