"""Asynchronous steps of a process: job, handler and token commit together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar
from uuid import UUID

from ..case import Case, Contenders
from ..measure import Sample, Stopwatch
from ..noop import registered
from ..processes import (
    KEY,
    chain_of_tasks,
    check_installed,
    check_raw,
    crowd,
    execute,
    fork_of_tasks,
    lengths,
    processes,
    remove_crowd,
    started,
)
from ..sandbox import tidy
from .atomic import Atomic

STEPS = 5
_CROWDED_STEPS, _OPEN_TOKENS = 20, 99


class Processes(Case):
    """Instances with five asynchronous no-op service tasks: steps per second, beside ``atomic`` no-op jobs.

    ``fork`` is one instance whose tasks are all parallel, may run at the same time, and are joined. ``start`` starts
    instances whose five tasks run at once, to their end, and ``start, waits`` those that wait for their first task,
    beside ``enqueue``, which inserts a job, and beside ``raw, start`` and ``raw, start, waits``, which insert the rows
    of the same starts and commit. ``crowded`` are steps of instances that have 99 more tokens, beside ``--instances``
    others that wait and ten times as many that have ended, which are loaded last, once; ``alone`` are those of as many
    instances, as long, without any of this.
    """

    name: ClassVar[str] = "processes"
    summary: ClassVar[str] = "asynchronous steps of processes, against lock, load, write and commit"
    default_jobs: ClassVar[int] = 1_000
    ratios: ClassVar = (
        *(("ours", "atomic"), ("start", "enqueue"), ("start, waits", "enqueue"), ("crowded", "alone")),
        *(("start", "raw, start"), ("start, waits", "raw, start, waits")),
    )

    def phases(self) -> Sequence[tuple[Callable[[], None], Contenders]]:
        return [(lambda: None, self.contenders()), (self.load, {"crowded": self.crowded}), (self.unload, {})]

    def contenders(self) -> Contenders:
        check_installed()
        atomic = Atomic(self.plan, self.progress)
        found = {"ours": self.ours, "atomic": atomic.ours, "fork": self.fork, "start": self.start}
        found |= {"start, waits": self.start_waiting, "enqueue": self.enqueue, "alone": self.alone}
        starts = {"raw, start": self.raw_start, "raw, start, waits": self.raw_start_waiting}
        return {**found, "raw": self.raw, **starts}

    def facts(self) -> Mapping[str, Any]:
        return {"instances": self.plan.options["instances"]}

    def load(self) -> None:
        """Fill the tables with other instances."""
        self.progress.stage(f"{self.name}: rows are loaded")
        count = self.plan.options["instances"]
        crowd(self.plan.alias, count, 10 * count)

    def unload(self) -> None:
        """Remove them again."""
        self.progress.stage(f"{self.name}: rows are removed")
        remove_crowd(self.plan.alias)

    def ours(self) -> Sample:
        return self._run(lambda: self._start(before=True))

    def crowded(self) -> Sample:
        return self._run(lambda: self._start(_CROWDED_STEPS, before=True, open_tokens=_OPEN_TOKENS))

    def alone(self) -> Sample:
        return self._run(lambda: self._start(_CROWDED_STEPS, before=True))

    def fork(self) -> Sample:
        return self._run(lambda: started(self.plan.alias, fork_of_tasks(self.plan.jobs)))

    def _run(self, start: Callable[[], object]) -> Sample:
        alias, ledger = self.plan.alias, self.ledger()
        with processes(alias), registered(alias, ledger.note):
            start()
            return execute(self.plan, ledger)

    def _start(self, steps: int = STEPS, **shape: Any) -> dict[UUID, int]:
        """How many steps each instance has."""
        every = list(lengths(self.plan.jobs, steps))
        made = {count: chain_of_tasks(count, **shape) for count in {count for _, count in every}}
        return {started(self.plan.alias, made[count], first): count for first, count in every}

    def start(self) -> Sample:
        ledger = self.ledger()
        sample = self._started(ledger.note, before=False)
        ledger.check()
        return sample

    def start_waiting(self) -> Sample:
        return self._started(lambda number: None, before=True)

    def _started(self, run: Callable[[int], None], *, before: bool) -> Sample:
        alias = self.plan.alias
        with processes(alias), registered(alias, run):
            with Stopwatch(alias) as watch:
                instances = self._start(before=before)
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
            instances = self._start(before=True)
            tidy(alias)
            sample = steps(alias, ledger, self.plan.settings.threads, instances)
            check_raw(alias, self.plan.jobs)
            return sample

    def raw_start(self) -> Sample:
        return self._raw_started(before=False)

    def raw_start_waiting(self) -> Sample:
        return self._raw_started(before=True)

    def _raw_started(self, *, before: bool) -> Sample:
        from ..raw.starting import Start, check, start_all

        alias = self.plan.alias
        with processes(alias), registered(alias, lambda number: None):
            every = [count for _, count in lengths(self.plan.jobs, STEPS)]
            shapes = {count: chain_of_tasks(count, before=before) for count in set(every)}
            starts = {count: Start(alias, started(alias, shape)) for count, shape in shapes.items()}
            # Keys of real instances are positive.
            transactions = [starts[count].again(-number) for number, count in enumerate(every, start=1)]
            tidy(alias)
            sample = start_all(alias, transactions)
            wanted = sum((starts[count].counts() for count in [*starts, *every]), Counter())
            check(alias, KEY, wanted)
            return sample
