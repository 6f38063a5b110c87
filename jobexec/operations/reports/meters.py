"""Meters: rows of deltas, written by nodes and summed by the database (Camunda: MetricsQuery).

``since`` is inclusive, ``until`` exclusive. Rows older than two hours cover a quarter of an hour each, and rows older
than METER_TIME_TO_LIVE all the time before; see :func:`roll_up`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import QuerySet, Sum

from jobexec import clock
from jobexec.models import MeterLog

from ..sql.time_buckets import sums_by_slot, whole_second
from ..values.histogram import quantile
from .meter_roll_up import RUNS_OF, roll_up

__all__ = [
    "HISTOGRAMS",
    "METERS",
    "RUNS_OF",
    "Counts",
    "Series",
    "flush_meters",
    "flushed",
    "percentiles",
    "roll_up",
    "series",
    "total",
    "totals",
    "totals_by_key",
]

# The names are Camunda's where Camunda has the meter.
JOB_ACQUISITION_ATTEMPT = "job-acquisition-attempt"
JOB_ACQUIRED_SUCCESS = "job-acquired-success"
JOB_ACQUIRED_FAILURE = "job-acquired-failure"
JOB_LOCKED_EXCLUSIVE = "job-locked-exclusive"
JOB_FOLLOWED_UP = "job-followed-up"
JOB_SUCCESSFUL = "job-successful"  # by handler
JOB_FAILED = "job-failed"  # by handler
JOB_DEAD_LETTERED = "job-dead-lettered"  # by handler
JOB_RECOVERED = "job-recovered"
JOB_WAIT_TIME = "job-wait-time"  # by bucket
JOB_RUN_TIME = "job-run-time"  # by bucket

# The totals of the times in the histograms, in milliseconds.
JOB_WAIT_TIME_SUM = "job-wait-time-sum"
JOB_RUN_TIME_SUM = "job-run-time-sum"

# A gauge as two meters: the sum of the samples by category, and their number.
JOB_BACKLOG = "job-backlog"
JOB_BACKLOG_SAMPLES = "job-backlog-samples"

#: Meters whose keys are buckets, see :mod:`~jobexec.operations.values.histogram`.
HISTOGRAMS = (JOB_WAIT_TIME, JOB_RUN_TIME)
METERS = (
    JOB_ACQUISITION_ATTEMPT,
    JOB_ACQUIRED_SUCCESS,
    JOB_ACQUIRED_FAILURE,
    JOB_LOCKED_EXCLUSIVE,
    JOB_FOLLOWED_UP,
    JOB_SUCCESSFUL,
    JOB_FAILED,
    JOB_DEAD_LETTERED,
    JOB_RECOVERED,
    *HISTOGRAMS,
    JOB_WAIT_TIME_SUM,
    JOB_RUN_TIME_SUM,
)

#: The increase of each meter, by name and key.
Counts = Mapping[tuple[str, str], int]

MOST_STEPS = 2000


@dataclass(frozen=True, slots=True)
class Series:
    """Meters over time: for each name, the increase in each step; the first step begins at ``since``."""

    since: datetime
    step: timedelta
    values: dict[str, list[int]]

    @property
    def starts(self) -> list[datetime]:
        """The start times of the steps."""
        length = max(map(len, self.values.values()), default=0)
        return [self.since + number * self.step for number in range(length)]


def flush_meters(using: str, reporter: str, counts: Counts, timestamp: datetime | None = None) -> None:
    """Write the counts of ``reporter`` (a node's name) until ``timestamp`` (default: now), in one statement."""
    timestamp = timestamp or clock.now(using)
    rows = [
        MeterLog(name=name, key=key, reporter=reporter, timestamp=timestamp, value=value)
        for (name, key), value in counts.items()
        if value
    ]
    MeterLog.objects.using(using).bulk_create(rows)


def flushed(using: str, reporter: str, timestamp: datetime) -> bool:
    """Return whether this flush was committed: for a node whose commit had an unknown outcome."""
    return MeterLog.objects.using(using).filter(reporter=reporter, timestamp=timestamp).exists()


def total(
    using: str, name: str, *, since: datetime | None = None, until: datetime | None = None, key: str | None = None
) -> int:
    """The increase of a meter, or of one of its keys, on all nodes. Without ``since``, a total that never decreases."""
    rows = _rows(using, [name], since, until)
    if key is not None:
        rows = rows.filter(key=key)
    found: int | None = rows.aggregate(sum=Sum("value"))["sum"]
    return int(found or 0)


def totals_by_key(
    using: str, name: str, *, since: datetime | None = None, until: datetime | None = None
) -> dict[str, int]:
    """The increase of a meter by key: a handler, or a bucket."""
    return {key: value for (_, key), value in totals(using, [name], since=since, until=until).items()}


def totals(
    using: str, names: Iterable[str] = METERS, *, since: datetime | None = None, until: datetime | None = None
) -> dict[tuple[str, str], int]:
    """The increase of several meters by name and key, in one statement."""
    groups = _rows(using, names, since, until).values_list("name", "key").annotate(sum=Sum("value"))
    return {(name, key): int(value) for name, key, value in groups.order_by("name", "key")}


def series(using: str, names: Sequence[str], *, since: datetime, until: datetime, step: timedelta) -> Series:
    """The increase of meters in each step of a period; 0 where nothing was counted.

    ``step`` and ``since`` are truncated to seconds. Steps of less than a quarter of an hour are useful only for the
    last two hours. Raises ValueError for a step of less than a second, and for more than 2,000 steps.
    """
    seconds, since = int(step.total_seconds()), whole_second(since)
    if seconds < 1:
        raise ValueError(f"step: expected at least a second, got {step!r}.")
    length = max(0, -(-(until - since) // timedelta(seconds=seconds)))
    if length > MOST_STEPS:
        raise ValueError(f"step: expected one that makes at most {MOST_STEPS} steps of this period, got {step!r}.")
    values = {name: [0] * length for name in names}
    step = timedelta(seconds=seconds)
    for name, slot, value in sums_by_slot(_rows(using, names, since, until), "name", since=since, step=step):
        values[name][slot] += value
    return Series(since, step, values)


def percentiles(
    using: str,
    name: str,
    *,
    since: datetime,
    until: datetime | None = None,
    quantiles: Sequence[float] = (0.5, 0.95, 0.99),
) -> dict[float, float | None]:
    """The percentiles of a histogram (:data:`HISTOGRAMS`) in seconds; None without jobs.

    Computed by linear interpolation in buckets that double in size: the error is less than a factor of two.
    """
    if name not in HISTOGRAMS:
        raise ValueError(f"name: expected one of {', '.join(HISTOGRAMS)}, got {name!r}.")
    counts = totals_by_key(using, name, since=since, until=until)
    return {share: quantile(counts, share) for share in quantiles}


def _rows(using: str, names: Iterable[str], since: datetime | None, until: datetime | None) -> QuerySet[MeterLog, Any]:
    names = list(names)

    rows = MeterLog.objects.using(using).filter(**({"name": names[0]} if len(names) == 1 else {"name__in": names}))
    if since is not None:
        rows = rows.filter(timestamp__gte=since)
    if until is not None:
        rows = rows.filter(timestamp__lt=until)
    return rows
