"""Execute async jobs that wait for something else, thousands at once in one process."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

from .. import ours
from ..case import Case, Contenders
from ..measure import Sample, Stopwatch
from ..noop import Ledger, fill, registered, registered_as
from ..raw import drain
from ..raw.queue import RawQueue
from ..raw.sql import RawConnection, Row
from ..report import Shown
from ..sandbox import tidy


class Crowd:
    """The handler: waits, and knows how many wait at most at the same time. All of it happens in one thread."""

    def __init__(self, ledger: Ledger, seconds: float) -> None:
        self._ledger, self._seconds = ledger, seconds
        self._now = self.most = 0

    async def wait(self, number: int) -> None:
        """One job."""
        self._now += 1
        self.most = max(self.most, self._now)
        await asyncio.sleep(self._seconds)
        self._now -= 1
        self._ledger.note(number)


class AsyncHandlers(Case):
    """Jobs whose ``async def`` handler sleeps for ``--wait`` seconds, as many at once as there are jobs.

    ``ideal`` is what the sleeping alone allows if all begin at once.
    """

    name: ClassVar[str] = "async"
    summary: ClassVar[str] = "execute async jobs that wait, all at once, against an event loop that locks and deletes"
    default_jobs: ClassVar[int] = 10_000
    shown = Shown({"at_once": "jobs"})

    def contenders(self) -> Contenders:
        return {"ours": self.ours, "raw": self.raw}

    def facts(self) -> dict[str, float]:
        return {"wait": self._seconds, "ideal": self.plan.jobs / self._seconds}

    @property
    def _seconds(self) -> float:
        return float(self.plan.options["wait"])

    def ours(self) -> Sample:
        alias, ledger = self.plan.alias, self.ledger()
        crowd = Crowd(ledger, self._seconds)
        with registered(alias, ledger.note) as handler:
            fill(handler, ledger.wanted)
        settings = self.plan.settings.replace(async_jobs=ledger.wanted)
        with registered_as(alias, crowd.wait):
            return ours.execute_all(settings, alias, ledger, lambda: {"at_once": crowd.most})

    def raw(self) -> Sample:
        alias, ledger = self.plan.alias, self.ledger()
        crowd = Crowd(ledger, self._seconds)
        with registered(alias, ledger.note) as handler:
            fill(handler, ledger.wanted)
        tidy(alias)
        with RawConnection(alias) as connection:
            queue = RawQueue(alias, connection, self.plan.raw_page)
            with Stopwatch(alias) as watch:
                asyncio.run(_drain(queue, crowd, self.plan.raw_page))
        ledger.check()
        ours.check_nothing_left(alias)
        return replace(watch.sample(ledger.wanted), figures={"at_once": crowd.most})


async def _drain(queue: RawQueue, crowd: Crowd, page: int) -> None:
    """Begin all jobs, page by page; delete those that have ended, page by page."""
    tasks: set[asyncio.Task[None]] = set()
    ended: list[Any] = []

    async def run(row: Row) -> None:
        await crowd.wait(drain.number_of(row))
        ended.append(row[0])

    while rows := queue.turn(_taken(ended, page)):
        tasks |= {asyncio.create_task(run(row)) for row in rows}
        await asyncio.sleep(0)
    while tasks:
        _, tasks = await asyncio.wait(tasks, timeout=0.02, return_when=asyncio.ALL_COMPLETED)
        while done := _taken(ended, page):
            queue.settle(done)


def _taken(ended: list[Any], page: int) -> Sequence[Any]:
    taken, ended[:page] = ended[:page], []
    return taken
