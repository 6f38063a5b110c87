"""Asynchronous steps of a process: job, handler and token commit together."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, ClassVar
from uuid import UUID

from ..case import Case, Contenders
from ..measure import Sample, Stopwatch
from ..noop import CATEGORY, HANDLER, registered
from ..processes import KEY, check_installed, check_raw, execute, lengths, processes
from ..sandbox import tidy
from .atomic import Atomic

STEPS = 5


class Processes(Case):
    """Instances with five asynchronous no-op service tasks: steps per second, beside ``atomic`` no-op jobs.

    ``start`` starts instances whose five tasks run at once, to their end, beside ``enqueue``, which inserts a job.
    """

    name: ClassVar[str] = "processes"
    summary: ClassVar[str] = "asynchronous steps of processes, against lock, load, write and commit"
    default_jobs: ClassVar[int] = 2_000
    ratios: ClassVar = (("ours", "atomic"), ("start", "enqueue"))

    def contenders(self) -> Contenders:
        check_installed()
        atomic = Atomic(self.plan, self.progress)
        found = {"ours": self.ours, "atomic": atomic.ours, "start": self.start, "enqueue": self.enqueue}
        return {**found, "raw": self.raw}

    def _process(self, steps: int, before: bool) -> Any:
        from jobexec.processes.definition import Expression, Flow, JobOptions, Kind, Node, Process, Work

        names = [f"s{number}" for number in range(steps)]
        nodes = [
            Node(
                name,
                Kind.SERVICE_TASK,
                work=Work(handler=HANDLER, arguments={"args": [Expression(f"${{first + {number}}}")], "kwargs": {}}),
                jobs=JobOptions(before=before, category=CATEGORY),
            )
            for number, name in enumerate(names)
        ]
        ends = ["begin", *names, "end"]
        flows = tuple(Flow(f"{a}-{b}", a, b) for a, b in pairwise(ends))
        return Process(KEY, (Node("begin", Kind.START_EVENT), *nodes, Node("end", Kind.END_EVENT)), flows)

    def _processes(self, before: bool) -> list[tuple[int, int, Any]]:
        """The first job of each instance, how many it has, and its process."""
        made = {steps: self._process(steps, before) for _, steps in lengths(self.plan.jobs, STEPS)}
        return [(first, steps, made[steps]) for first, steps in lengths(self.plan.jobs, STEPS)]

    def _start(self, instances: list[tuple[int, int, Any]]) -> dict[UUID, int]:
        """How many steps each instance has."""
        from jobexec.processes.operations.flows import start_flow

        return {
            start_flow(self.plan.alias, process, {"first": first, "note": "x" * 400}).pk: steps
            for first, steps, process in instances
        }

    def ours(self) -> Sample:
        alias, ledger = self.plan.alias, self.ledger()
        with processes(alias), registered(alias, ledger.note):
            self._start(self._processes(before=True))
            return execute(self.plan, ledger)

    def start(self) -> Sample:
        alias, ledger = self.plan.alias, self.ledger()
        with processes(alias), registered(alias, ledger.note):
            instances = self._processes(before=False)
            with Stopwatch(alias) as watch:
                self._start(instances)
            ledger.check()
            return watch.sample(len(instances))

    def enqueue(self) -> Sample:
        alias, count = self.plan.alias, len(list(lengths(self.plan.jobs, STEPS)))
        with processes(alias), registered(alias, lambda number: None) as handler:
            tidy(alias)
            with Stopwatch(alias) as watch:
                for number in range(count):
                    handler.enqueue(number)
            return watch.sample(count)

    def raw(self) -> Sample:
        from ..raw.stepping import steps

        alias, ledger = self.plan.alias, self.ledger()
        with processes(alias), registered(alias, ledger.note):
            started = self._start(self._processes(before=True))
            tidy(alias)
            sample = steps(alias, ledger, self.plan.settings.threads, started)
            check_raw(alias, self.plan.jobs)
            return sample
