"""What a case is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from .measure import Plan, Sample
from .report import Report


class Case(ABC):
    """One kind of work, done by several contenders: mostly by jobexec (``ours``) and by raw SQL (``raw``)."""

    name: ClassVar[str]
    summary: ClassVar[str]
    default_jobs: ClassVar[int]
    #: What :meth:`value` gives: "jobs/s", "ms" or "s".
    unit: ClassVar[str] = "jobs/s"

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    @abstractmethod
    def contenders(self) -> Mapping[str, Callable[[], Sample]]:
        """What runs in turn: ``ours``, ``raw``, and further variants by name.

        Each prepares its work, times it, and checks that each job was done exactly once; what it leaves in the tables
        is removed by the caller.
        """

    def value(self, sample: Sample) -> float:
        """The figure by which a run is judged."""
        return sample.rate

    def report(
        self, samples: Mapping[str, Sequence[Any]], settings: Mapping[str, Any], versions: Mapping[str, str]
    ) -> Report:
        """What was measured; ``samples`` are the runs by contender."""
        return Report(
            case=self.name,
            engine=self.plan.alias,
            unit=self.unit,
            samples=samples,
            values={name: [self.value(sample) for sample in runs] for name, runs in samples.items()},
            settings=settings,
            versions=versions,
        )
