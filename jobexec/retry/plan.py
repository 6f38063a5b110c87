"""The class RetryPlan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import TypeAlias

from jobexec import clock, conf
from jobexec.exceptions import DoNotRetry, InvalidRetryPlan
from jobexec.retry.intervals import Growth, Interval, checked, fixed, length, parse_interval
from jobexec.retry.text import (
    DEFAULT_JITTER,
    DEFAULT_MAXIMUM,
    MAX_TEXT_LENGTH,
    UNLIMITED,
    Parts,
    format_parts,
    parse_text,
)

RetryFunction: TypeAlias = Callable[[int, BaseException | None], timedelta | float | None]

_FORMS = "R5/PT5M, R/PT5M, PT5M, PT1M,PT10M,PT1H or R8/PT10S*2..PT1H~0.1"


@dataclass(frozen=True, slots=True)
class RetryPlan:
    """When a failed job is retried. See :meth:`parse`, :meth:`exponential`, :meth:`from_callable`.

    ``attempts`` is the total number of executions, including the first, at least 1: the initial ``retries`` of a job.
    Plans with the same content are equal; they are hashable. Source: Camunda's failedJobRetryTimeCycle; growth, jitter
    and callables are our own.
    """

    attempts: int
    intervals: tuple[Interval, ...] = ()
    growth: Growth | None = None
    function: RetryFunction | None = None

    def __post_init__(self) -> None:
        count = self.attempts
        if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= UNLIMITED:
            raise InvalidRetryPlan(f"the attempts must be a whole number from 1 to {UNLIMITED}, got {count!r}")
        if self.function is None:
            self._check_intervals()
        elif not callable(self.function):
            raise InvalidRetryPlan(f"{self.function!r} is not callable")

    def _check_intervals(self) -> None:
        if not self.intervals:
            raise InvalidRetryPlan("a retry plan needs at least one interval")
        if len(self.intervals) > 1 and self.attempts != len(self.intervals) + 1:
            raise InvalidRetryPlan("a list of intervals has one attempt more than intervals")
        if self.growth is not None and not timedelta(0) < self.intervals[0] <= self.growth.maximum:
            raise InvalidRetryPlan("the first interval must be longer than 0 and at most the maximum")
        if len(str(self)) > MAX_TEXT_LENGTH:
            raise InvalidRetryPlan(f"the text of the plan is longer than {MAX_TEXT_LENGTH} characters")

    @classmethod
    def parse(cls, value: object) -> RetryPlan:
        """A plan from a plan, a string (see :mod:`jobexec.retry`), a list of strings and timedeltas, or a callable.

        A callable may set its number of attempts in an attribute ``attempts``, otherwise it has 3. Raises
        InvalidRetryPlan, which names the plan and what was expected.
        """
        if isinstance(value, RetryPlan):
            return value
        try:
            if isinstance(value, str):
                return _from_text(value)
            if isinstance(value, (list, tuple)):
                return _from_list(value)
            if callable(value):
                return cls.from_callable(value, getattr(value, "attempts", 3))
        except ValueError as error:
            raise InvalidRetryPlan(f"Invalid retry plan {value!r}: {error}; expected {_FORMS}.") from None
        wait = f" For {value} attempts, 5 minutes apart: R{value}/PT5M." if type(value) is int and value > 0 else ""
        forms = f"expected {_FORMS}, a list of durations, or a callable."
        raise InvalidRetryPlan(f"Invalid retry plan {value!r}: {forms}{wait}")

    @classmethod
    def exponential(
        cls,
        attempts: int,
        first: timedelta | float | str,
        *,
        factor: float = 2.0,
        maximum: timedelta | float | str = DEFAULT_MAXIMUM,
        jitter: float = DEFAULT_JITTER,
    ) -> RetryPlan:
        """Each interval is ``factor`` (at least 1) times the one before, from ``first`` up to ``maximum``.

        Both are a timedelta, a number of seconds, or an ISO 8601 string without months and years. ``jitter`` (0 to 1)
        is the share by which an interval is shortened at random, so that jobs that failed together are not retried
        together. It only shortens an interval, so that ``maximum`` holds. Raises InvalidRetryPlan. (Own decision.)
        """
        try:
            growth = Growth(float(factor), fixed(maximum), float(jitter))
            return cls(attempts, (fixed(first),), growth)
        except (TypeError, ValueError) as error:
            raise InvalidRetryPlan(f"Invalid exponential retry plan starting at {first!r}: {error}.") from None

    @classmethod
    def from_callable(cls, func: RetryFunction, attempts: int = 3) -> RetryPlan:
        """A plan that calls ``func(failures, error)`` for a timedelta, seconds, or None (do not retry)."""
        return cls(attempts, function=func)

    def delay(self, failures: int, error: BaseException | None = None, now: datetime | None = None) -> timedelta:
        """How long to wait after failure number ``failures`` (from 1; past the last interval, it repeats).

        Months and years are counted from ``now``, by default the time of jobexec's clock. Raises DoNotRetry if the
        plan's callable decides so, and InvalidRetryPlan if the callable fails or returns something else.
        """
        failures = max(failures, 1)
        if self.function is not None:
            return _ask(self.function, failures, error)
        if self.growth is not None:
            return self.growth.interval(self.intervals[0], failures)
        interval = self.intervals[min(failures, len(self.intervals)) - 1]
        return interval if isinstance(interval, timedelta) else length(interval, now or clock.now())

    def next_due_date(self, now: datetime, failures: int, error: BaseException | None = None) -> datetime:
        """The time of the next attempt: ``now`` plus :meth:`delay`, with the same errors."""
        return now + self.delay(failures, error, now)

    def __str__(self) -> str:
        """A text that :meth:`parse` converts to an equal plan; '' for a callable, which has none."""
        if self.function is not None:
            return ""
        return format_parts(Parts(self.attempts, self.intervals, self.growth))


def default_plan() -> RetryPlan:
    """The plan of the setting DEFAULT_RETRY_PLAN. Raises InvalidRetryPlan, which check jobexec.E006 reports."""
    return RetryPlan.parse(conf.get_settings().default_retry_plan)


@lru_cache(maxsize=512)  # a failed job's plan comes from its row, as text, each time
def _from_text(text: str) -> RetryPlan:
    return RetryPlan(*parse_text(text))


def _from_list(values: Sequence[object]) -> RetryPlan:
    return RetryPlan(len(values) + 1, tuple(map(_list_item, values)))


def _list_item(value: object) -> Interval:
    if isinstance(value, str):
        return parse_interval(value.strip())
    if isinstance(value, timedelta):
        return checked(value)
    raise ValueError(f"{value!r} is neither a timedelta nor a string")


def _ask(function: RetryFunction, failures: int, error: BaseException | None) -> timedelta:
    try:
        answer = function(failures, error)
        if answer is not None:
            return fixed(answer)
    except DoNotRetry:
        raise
    except Exception as problem:
        raise InvalidRetryPlan(
            f"The retry plan {function!r} failed after failure {failures}: {problem!r}."
        ) from problem
    raise DoNotRetry(f"The retry plan does not try again after failure {failures}.")
