"""Throughput, waiting times and run times over time, from the meters and never from jobs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Q, Sum

from jobexec.identifiers import own_together
from jobexec.models import MeterLog

from ..sql.time_buckets import floor, sums_by_slot
from ..values.histogram import quantile
from .meters import HISTOGRAMS, JOB_FAILED, JOB_RUN_TIME, JOB_SUCCESSFUL, JOB_WAIT_TIME, Series, series

SHARES = (0.5, 0.95, 0.99)

#: How long ago jobs count for the present rate; with longer steps the last full one.
_LATELY = timedelta(minutes=5)

#: The steps for a period up to a length, for counts and for percentiles, which are meaningful only for many jobs.
#: Older rows of the meter log cover a quarter of an hour, so the steps of a day are multiples of that.
_STEPS = (
    (timedelta(hours=2), timedelta(minutes=1), timedelta(minutes=5)),
    (timedelta(days=2), timedelta(minutes=15), timedelta(hours=1)),
    (timedelta.max, timedelta(hours=6), timedelta(hours=12)),
)


@dataclass(frozen=True, slots=True)
class Times:
    """Percentiles of durations in seconds, by share of the jobs; None where there was no job."""

    since: datetime
    step: timedelta
    overall: dict[float, float | None]
    steps: dict[float, list[float | None]]


@dataclass(frozen=True, slots=True)
class Runs:
    """The runs in each step since a moment, and how long the successful ones took."""

    since: datetime
    step: timedelta
    succeeded: list[int]
    failed: list[int]
    run: Times

    @property
    def all_succeeded(self) -> int:
        """The number of completed jobs."""
        return sum(self.succeeded)

    @property
    def all_failed(self) -> int:
        """The number of failed attempts; a job that is retried may be counted more than once."""
        return sum(self.failed)

    @property
    def per_second(self) -> float:
        """How many runs there were in each second of the period."""
        return (self.all_succeeded + self.all_failed) / (len(self.succeeded) * self.step.total_seconds())


@dataclass(frozen=True, slots=True)
class Traffic(Runs):
    """The runs of an engine in a period, and how long their jobs had waited."""

    wait: Times

    @property
    def per_second(self) -> float:
        """How many jobs were completed per second lately. The step that has just begun does not count."""
        lately = self.succeeded[:-1][-max(1, _LATELY // self.step) :]
        return sum(lately) / (len(lately) * self.step.total_seconds()) if lately else 0.0


def step_of(period: timedelta) -> timedelta:
    """The length of the steps in which counts of a period are shown."""
    return next(step for most, step, _ in _STEPS if period <= most)


def traffic(using: str, now: datetime, period: timedelta) -> Traffic:
    """The traffic of the last ``period``, from the beginning of a step, in two statements."""
    fine, coarse = next(steps for most, *steps in _STEPS if period <= most)
    begin = floor(now - period, fine)
    counted: Series = series(using, (JOB_SUCCESSFUL, JOB_FAILED), since=begin, until=now, step=fine)
    times = _times(using, floor(now - period, coarse), now, coarse)
    return Traffic(
        succeeded=counted.values[JOB_SUCCESSFUL],
        failed=counted.values[JOB_FAILED],
        since=counted.since,
        step=counted.step,
        wait=times[JOB_WAIT_TIME],
        run=times[JOB_RUN_TIME],
    )


@dataclass(frozen=True, slots=True)
class HandlerTraffic:
    """The jobs of a handler, or of all of jobexec's own, that an engine executed in a period, and its rate lately."""

    handler_type: str
    succeeded: int
    failed: int
    per_minute: float


def traffic_by_handler(using: str, now: datetime, period: timedelta, limit: int) -> list[HandlerTraffic]:
    """The handlers with the most runs in the last ``period``, in one statement."""
    begin, lately = now - period, min(period, _LATELY)
    rows = MeterLog.objects.using(using).filter(name__in=(JOB_SUCCESSFUL, JOB_FAILED), timestamp__gte=begin)
    recent = Sum("value", filter=Q(timestamp__gte=now - lately))
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for name, key, value, late in rows.values_list("name", "key").annotate(sum=Sum("value"), late=recent).order_by():
        found[own_together(key)] += Counter({name: int(value), "late": int(late or 0)})
    minutes = lately.total_seconds() / 60
    every = [
        HandlerTraffic(key, each[JOB_SUCCESSFUL], each[JOB_FAILED], each["late"] / minutes)
        for key, each in found.items()
    ]
    return sorted(every, key=lambda each: (-each.succeeded - each.failed, each.handler_type))[:limit]


def _times(using: str, since: datetime, until: datetime, step: timedelta) -> dict[str, Times]:
    rows = MeterLog.objects.using(using).filter(name__in=HISTOGRAMS, timestamp__gte=since, timestamp__lt=until)
    found: dict[str, dict[int, Counter[str]]] = {name: defaultdict(Counter) for name in HISTOGRAMS}
    for name, key, slot, count in sums_by_slot(rows, "name", "key", since=since, step=step):
        found[name][slot][key] += count
    length = -(-(until - since) // step)
    return {name: times_of(since, step, [by_slot[slot] for slot in range(length)]) for name, by_slot in found.items()}


def times_of(since: datetime, step: timedelta, slots: Sequence[Mapping[str, int]]) -> Times:
    """The percentiles of these counts by bucket, one of them for each step."""
    everything: Counter[str] = Counter()
    for counts in slots:
        everything.update(counts)
    return Times(
        since=since,
        step=step,
        overall={share: quantile(everything, share) for share in SHARES},
        steps={share: [quantile(counts, share) for counts in slots] for share in SHARES},
    )
