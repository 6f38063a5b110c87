"""Execute a table full of no-op jobs."""

from __future__ import annotations

from typing import ClassVar

from .. import ours
from ..case import Case, Contenders
from ..measure import Sample
from ..nodes.node_drain import drain_on_nodes
from ..noop import fill, registered
from ..raw import drain
from ..sandbox import tidy


class Drain(Case):
    """The executor as it is, embedded in this process, against a loop that locks a page and deletes it.

    Timed from the start of the executor, with its registration and its threads, until the last job is settled. With
    several processes each is an executor, and against them stand as many processes with the loop. ``raw`` looks at no
    job of its pages; ``raw, each called`` reads the arguments of each and calls a function, which is the least that it
    takes in Python to run jobs at all.
    """

    name: ClassVar[str] = "drain"
    summary: ClassVar[str] = "execute no-op jobs, against a loop that locks and deletes the same rows"
    default_jobs: ClassVar[int] = 20_000

    def contenders(self) -> Contenders:
        both: Contenders = {"ours": self.ours, "raw": self.raw}
        return both if self.processes > 1 else {**both, "raw, each called": self.raw_called}

    @property
    def processes(self) -> int:
        """How many take part; 1 is this one."""
        return int(self.plan.options.get("processes") or 1)

    def facts(self) -> dict[str, int]:
        return {"processes": self.processes}

    def ours(self) -> Sample:
        alias, ledger = self.plan.alias, self.ledger()
        with registered(alias, ledger.note) as handler:
            fill(handler, self.plan.jobs)
            tidy(alias)
            if self.processes > 1:
                sample = drain_on_nodes(self.plan, "ours", self.processes, ledger, self.progress)
            else:
                sample = ours.execute(self.plan.settings, alias, ledger)
        ours.check_nothing_left(alias)
        return sample

    def raw_called(self) -> Sample:
        return self.raw(called=True)

    def raw(self, called: bool = False) -> Sample:
        alias, ledger = self.plan.alias, self.ledger()
        with registered(alias, ledger.note) as handler:
            fill(handler, self.plan.jobs)
        tidy(alias)
        if self.processes > 1:
            sample = drain_on_nodes(self.plan, "raw", self.processes, ledger, self.progress)
        else:
            work = drain.calling(ledger.note) if called else None
            sample = drain.drain(alias, ledger, self.plan.raw_page, work)
            if called:
                ledger.check()
        ours.check_nothing_left(alias)
        return sample
