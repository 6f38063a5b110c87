"""What a case is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

from .measure import Plan, Sample
from .noop import Ledger
from .progress import Progress
from .report import Report, Shown

Contenders = Mapping[str, Callable[[], Sample]]


class Case(ABC):
    """One kind of work, done by several contenders: mostly by jobexec (``ours``) and by raw SQL (``raw``)."""

    name: ClassVar[str]
    summary: ClassVar[str]
    default_jobs: ClassVar[int]
    default_repeat: ClassVar[int] = 3
    #: Settings that the case has where the command line does not say otherwise.
    default_settings: ClassVar[Mapping[str, Any]] = {}
    #: Settings that are the case's own, so that the command line cannot give them.
    own_settings: ClassVar[Mapping[str, Any]] = {}
    #: What :meth:`value` gives: "jobs/s", "ms" or "s".
    unit: ClassVar[str] = "jobs/s"
    #: What is counted: one and many of them.
    counted: ClassVar[tuple[str, str]] = ("job", "jobs")
    #: Pairs of contenders whose ratio is worth telling beside that of ours to raw.
    ratios: ClassVar[Sequence[tuple[str, str]]] = ()
    #: How the report shows what the runs bring beside :meth:`value`.
    shown: ClassVar[Shown] = Shown()

    def __init__(self, plan: Plan, progress: Progress | None = None) -> None:
        self.plan = plan
        self.progress = progress or Progress()

    @abstractmethod
    def contenders(self) -> Contenders:
        """What runs in turn: ``ours``, ``raw``, and further variants by name.

        Each prepares its work, times it, and checks that each job was done exactly once; what it leaves in the tables
        is removed by the caller.
        """

    def phases(self) -> Sequence[tuple[Callable[[], None], Contenders]]:
        """What runs after what: a preparation, and then these contenders in turn."""
        return [(lambda: None, self.contenders())]

    def value(self, sample: Sample) -> float:
        """The figure by which a run is judged."""
        return sample.rate

    def ledger(self, jobs: int | None = None) -> Ledger:
        """A ledger for the jobs of a run, which the progress follows."""
        ledger = Ledger(jobs or self.plan.jobs)
        self.progress.follow(ledger.count, ledger.wanted)
        return ledger

    def facts(self) -> Mapping[str, Any]:
        """What else belongs to the report's ``details``."""
        return {}

    def notes(self) -> Iterable[str]:
        """What else the table says, a line each."""
        return ()

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
            summary=self.summary,
            ratios=self.ratios,
            facts=self.facts(),
            shown=self.shown,
            counted=self.counted,
            notes=tuple(self.notes()),
        )
