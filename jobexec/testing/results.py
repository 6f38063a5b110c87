"""The results of a manual executor's runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from uuid import UUID

from jobexec.executor.run.outcomes import Outcome
from jobexec.models import AbstractJob, DeadLetterJob
from jobexec.operations.values.acquired_job import AcquiredJob

if TYPE_CHECKING:
    from jobexec.handlers.base import JobHandler

OutcomeName: TypeAlias = Literal[
    "successful", "failed", "timeout", "snoozed", "cancelled", "lost", "returned", "unsettled"
]


@dataclass(frozen=True, slots=True)
class JobResult:
    """One run of a job and its outcome.

    ``outcome`` is ``successful``; ``failed`` or ``timeout`` (:attr:`became` is then the table in which the job is now);
    ``snoozed`` (it postponed itself with ``count=False``); ``cancelled``; ``lost`` (another node had taken the job, so
    the outcome does not count); ``returned`` (it could not start and was released); or ``unsettled`` (the database was
    not available to write the outcome, and the next operation tries again). ``value`` is what the handler returned,
    ``exception`` what it raised; ``attempt`` counts from 1.
    """

    id: UUID
    handler: str
    outcome: OutcomeName
    value: Any = None
    exception: BaseException | None = None
    attempt: int = 1
    #: The table in which the job is now; None if it is done or gone, as is a step whose failure has a way of its own.
    became: type[AbstractJob] | None = None

    @property
    def successful(self) -> bool:
        return self.outcome == "successful"

    @property
    def dead(self) -> bool:
        """Whether the job has become a dead letter."""
        return self.became is DeadLetterJob

    def __str__(self) -> str:
        became = f", now a {self.became.__name__}" if self.became else ""
        error = f": {type(self.exception).__name__}" if self.exception else ""
        return f"{self.handler} {self.id} {self.outcome}{error} (attempt {self.attempt}{became})"


class JobsDoNotEnd(AssertionError):
    """More jobs have run than the test allows, and more are due."""

    def __init__(self, max_jobs: int, results: Iterable[JobResult]) -> None:
        #: The runs until then.
        self.results = list(results)
        counts = Counter(f"{each.handler} ({each.outcome})" for each in self.results)
        told = ", ".join(f"{count} of {name}" for name, count in counts.most_common(10))
        super().__init__(
            f"{max_jobs} jobs have run and more are due: does a job enqueue itself forever? Ran: {told}. "
            "If this many are expected, pass a larger max_jobs."
        )


@dataclass(slots=True, eq=False)
class Ran:
    """A job that has run in a manual executor, with its outcome not written yet."""

    work: AcquiredJob
    outcome: Outcome
    handler: JobHandler | None = None
    value: Any = None
    error: BaseException | None = None
    #: Whether the error was injected by the test.
    injected: bool = False

    def result(self, *, unsettled: bool) -> JobResult:
        """The result of the run; ``unsettled``: the outcome could not be written."""
        work, outcome = self.work, self.outcome
        name: Any = outcome.name
        if unsettled:
            name = "unsettled"
        elif outcome.run is not None and not outcome.counted:
            name = "lost"
        became = outcome.became if name in ("failed", "timeout", "snoozed") and not outcome.handled else None
        value = self.value if name == "successful" else None
        error = outcome.failure.error if outcome.handled and outcome.failure else self.error
        return JobResult(work.id, work.handler_type, name, value, error, work.attempts + 1, became)
