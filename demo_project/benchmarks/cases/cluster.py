"""Several nodes share one table: what acquiring costs them, and how often they collide."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from jobexec.handlers.function import JobFunction
from jobexec.operations.sql.locks import is_single_writer

from ..case import Case
from ..measure import BenchError, Plan, Sample
from ..nodes.cluster_report import ClusterReport
from ..nodes.cluster_sample import ClusterSample, NodeRun
from ..nodes.node import sleeping_job
from ..nodes.processes import Nodes
from ..nodes.strategies import overrides_of
from ..noop import check_once
from ..sandbox import jobs_left, tidy

_LONGEST = 160.0
_PRIORITIES = 20


@dataclass(frozen=True, slots=True)
class ClusterPlan(Plan):
    """Also how many ``nodes``, with which ``strategies``, and the ``seed`` of service times and priorities."""

    nodes: int = 3
    strategies: tuple[str, ...] = ()
    seed: int = 1


class Cluster(Case):
    """The experiment of Camunda's article on job executors in a cluster (2015), in small.

    Jobs of 0 to 160 ms and of random priority stand in the table when all nodes, each a process of its own, begin.
    Timed until the last job has ended.
    """

    name: ClassVar[str] = "cluster"
    summary: ClassVar[str] = "several nodes on one table: rounds, pages and lock failures of each strategy"
    default_jobs: ClassVar[int] = 3_000
    unit: ClassVar[str] = "s"

    plan: ClusterPlan

    def contenders(self) -> Mapping[str, Callable[[], Sample]]:
        if is_single_writer(self.plan.alias):
            raise BenchError(f"{self.plan.alias!r} is on SQLite, which only one executor at a time may serve.")
        return {name: partial(self.run, name) for name in self.plan.strategies}

    def value(self, sample: Sample) -> float:
        return sample.seconds

    def run(self, strategy: str) -> ClusterSample:
        """One run of one strategy."""
        alias, jobs = self.plan.alias, self.plan.jobs
        with sleeping_job(alias, lambda number: None) as handler:
            fill(handler, work_of(jobs, self.plan.seed))
        tidy(alias)
        with Nodes(self.plan.nodes, alias, overrides_of(strategy, self.plan.overrides)) as nodes:
            nodes.wait_until_ready()
            self.progress.follow(nodes.done, jobs)
            began = nodes.go()
            nodes.wait_until_done(jobs)
            sample = ClusterSample.of(jobs, [NodeRun.of(report, began) for report in nodes.stop()])
        check_once([number for node in sample.nodes for number, _ in node.ended], jobs, "ran")
        if left := jobs_left(alias):
            raise BenchError(f"{left} jobs are still there after all have run.")
        return sample

    def report(
        self, samples: Mapping[str, Sequence[Any]], settings: Mapping[str, Any], versions: Mapping[str, str]
    ) -> ClusterReport:
        plan = self.plan
        slots = plan.nodes * plan.settings.threads
        values = {name: [self.value(sample) for sample in runs] for name, runs in samples.items()}
        facts = {name: value for name, value in settings.items() if name not in ("acquisition", "page")}
        pages = {name: overrides_of(name, plan.overrides)["max_jobs_per_acquisition"] for name in plan.strategies}
        facts |= {"pages": pages, "seed": plan.seed}
        return ClusterReport(
            self.name,
            plan.alias,
            self.unit,
            samples,
            values,
            facts,
            versions,
            nodes=plan.nodes,
            ideal=self._service_time() / slots,
        )

    def _service_time(self) -> float:
        return sum(milliseconds for _, milliseconds, _ in work_of(self.plan.jobs, self.plan.seed)) / 1000


def work_of(jobs: int, seed: int) -> Iterator[tuple[int, float, int]]:
    """Number, milliseconds and priority of each job; the same for the same seed."""
    chance = random.Random(seed)
    for number in range(jobs):
        yield number, round(chance.uniform(0, _LONGEST), 1), chance.randrange(_PRIORITIES)


def fill(handler: JobFunction[[int, float], None], work: Iterator[tuple[int, float, int]]) -> None:
    """Enqueue the work, priority by priority."""
    by_priority: dict[int, list[tuple[int, float]]] = {}
    for number, milliseconds, priority in work:
        by_priority.setdefault(priority, []).append((number, milliseconds))
    for priority, calls in sorted(by_priority.items()):
        handler.using(priority=priority).enqueue_many(calls)
