"""Chains and forks of no-op functions as flows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar
from uuid import UUID

from ..case import Case, Contenders
from ..measure import Sample
from ..noop import registered
from ..processes import KEY, check_installed, check_raw, execute, lengths, processes
from ..sandbox import tidy

STEPS = 10


class Flows(Case):
    """Chains of ten no-op steps, each function in a job of its own; a fork of as many branches, and its join.

    The figures are steps per second. ``fork`` is one instance, whose steps come one after the other.
    """

    name: ClassVar[str] = "flows"
    summary: ClassVar[str] = "steps of flows: many chains of ten, and one fork, against lock, load, write and commit"
    default_jobs: ClassVar[int] = 2_000
    ratios: ClassVar = (("fork", "ours"),)

    def contenders(self) -> Contenders:
        check_installed()
        return {"ours": self.ours, "fork": self.fork, "raw": self.raw}

    def ours(self) -> Sample:
        return self._run(self._start_chains)

    def fork(self) -> Sample:
        return self._run(self._start_fork)

    def _run(self, start: Callable[[Any], object]) -> Sample:
        alias, ledger = self.plan.alias, self.ledger()
        with processes(alias), registered(alias, ledger.note) as handler:
            start(handler)
            return execute(self.plan, ledger)

    def _start_chains(self, handler: Any) -> dict[UUID, int]:
        """How many steps each instance has."""
        from jobexec.processes import chain

        started = {}
        for first, steps in lengths(self.plan.jobs, STEPS):
            parts = [handler.s(number) for number in range(first, first + steps)]
            started[chain(*parts).start(KEY, using=self.plan.alias).pk] = steps
        return started

    def _start_fork(self, handler: Any) -> None:
        from jobexec.processes import parallel

        parallel(*(handler.s(number) for number in range(self.plan.jobs))).start(KEY, using=self.plan.alias)

    def raw(self) -> Sample:
        from ..raw.stepping import steps

        alias, ledger = self.plan.alias, self.ledger()
        with processes(alias), registered(alias, ledger.note) as handler:
            started = self._start_chains(handler)
            tidy(alias)
            sample = steps(alias, ledger, self.plan.settings.threads, started)
            check_raw(alias, self.plan.jobs)
            return sample
