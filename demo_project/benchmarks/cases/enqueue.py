"""Enqueue one at a time, each in a transaction of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

from ..case import Case
from ..measure import Sample, Stopwatch
from ..noop import Ledger, check_table, registered
from ..raw.sql import Insert, RawConnection
from ..sandbox import overridden


class Enqueue(Case):
    """``enqueue()`` in autocommit, waking off; the same with waking on; the bare INSERT of the same row."""

    name: ClassVar[str] = "enqueue"
    summary: ClassVar[str] = "enqueue() one at a time in autocommit, against the INSERT of the same row"
    default_jobs: ClassVar[int] = 2_000

    def contenders(self) -> Mapping[str, Callable[[], Sample]]:
        always = {"ours": self.ours, "raw": self.raw}
        # Where nothing listens, there is nothing to wake.
        return always | {"ours, waking on": self.ours_waking} if self.plan.listens else always

    def ours(self, notify: bool = False) -> Sample:
        alias, jobs = self.plan.alias, self.plan.jobs
        settings = self.plan.settings.replace(notify=notify)
        with overridden(settings), registered(alias, Ledger(jobs).note) as handler, Stopwatch(alias) as watch:
            for number in range(jobs):
                handler.enqueue(number)
        check_table(alias, jobs)
        return watch.sample(jobs)

    def ours_waking(self) -> Sample:
        return self.ours(notify=True)

    def raw(self) -> Sample:
        alias, jobs = self.plan.alias, self.plan.jobs
        with registered(alias, Ledger(jobs).note) as handler:
            insert = Insert(handler, alias)
        rows = [insert.row(number) for number in range(jobs)]
        with RawConnection(alias) as connection, Stopwatch(alias) as watch:
            execute, statement = connection.cursor.execute, insert.statement
            for row in rows:
                execute(statement, row)
        check_table(alias, jobs)
        return watch.sample(jobs)
