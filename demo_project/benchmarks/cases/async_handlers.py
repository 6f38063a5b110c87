"""Execute async jobs that wait for something else, thousands at once in one process."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import ClassVar

from .. import ours
from ..case import Case, Contenders
from ..measure import Sample, Stopwatch
from ..noop import Ledger, fill, registered, registered_as
from ..raw.drain import run_all
from ..raw.on_event_loop import EventLoop
from ..raw.queue import RawQueue
from ..raw.sql import RawConnection
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
                run_all([EventLoop(queue, crowd.wait, self.plan.raw_page)])
        ledger.check()
        ours.check_nothing_left(alias)
        return replace(watch.sample(ledger.wanted), figures={"at_once": crowd.most})
