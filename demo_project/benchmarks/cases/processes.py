"""Asynchronous steps of a process: job, handler and token commit together."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, ClassVar

from ..case import Case, Contenders
from ..measure import Sample, Stopwatch
from ..noop import CATEGORY, HANDLER, registered
from ..processes import KEY, check_installed, execute, processes, remaining_steps
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

    @property
    def _instances(self) -> int:
        return max(1, self.plan.jobs // STEPS)

    def _process(self, before: bool) -> Any:
        from jobexec.processes.definition import Expression, Flow, JobOptions, Kind, Node, Process, Work

        names = [f"s{number}" for number in range(STEPS)]
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

    def _start(self, process: Any) -> None:
        from jobexec.processes.operations.flows import start_flow

        for number in range(self._instances):
            start_flow(self.plan.alias, process, {"first": number * STEPS, "note": "x" * 400})

    def ours(self) -> Sample:
        alias, ledger = self.plan.alias, self.ledger(self._instances * STEPS)
        with processes(alias), registered(alias, ledger.note):
            self._start(self._process(before=True))
            return execute(self.plan, ledger)

    def start(self) -> Sample:
        alias, ledger = self.plan.alias, self.ledger(self._instances * STEPS)
        with processes(alias), registered(alias, ledger.note):
            process = self._process(before=False)
            with Stopwatch(alias) as watch:
                self._start(process)
            ledger.check()
            return watch.sample(self._instances)

    def enqueue(self) -> Sample:
        alias = self.plan.alias
        with processes(alias), registered(alias, lambda number: None) as handler:
            tidy(alias)
            with Stopwatch(alias) as watch:
                for number in range(self._instances):
                    handler.enqueue(number)
            return watch.sample(self._instances)

    def raw(self) -> Sample:
        from ..raw.stepping import steps

        alias, ledger = self.plan.alias, self.ledger(self._instances * STEPS)
        with processes(alias), registered(alias, ledger.note):
            self._start(self._process(before=True))
            tidy(alias)
            sample = steps(alias, ledger, self.plan.settings.threads, STEPS)
            remaining_steps(alias)
            return sample
