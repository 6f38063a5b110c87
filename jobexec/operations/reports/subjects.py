"""The activity of a handler, a category or a tenant: its runs from meters, its jobs and failures counted up to a limit.

The runs of a subject have a meter of their own: its name says which subject, its keys are the buckets of the durations
of successful runs, and ``failed``. So a statement reads the rows of this subject alone, however many others there are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Any

from django.db.models import Count, Q

from jobexec import clock
from jobexec.identifiers import own_together
from jobexec.models import (
    JOB_TABLES,
    AbstractJob,
    BlockedJob,
    ExternalWorkerJob,
    FailureGroup,
    Incident,
    IncidentState,
    Job,
    JobLog,
    LogState,
    MeterLog,
)

from ..rows.routing import free, held
from ..sql.time_buckets import floor, sums_by_slot
from ..values.histogram import KEYS
from .counts import COUNT_LIMIT, ESTIMATES_FROM, CappedCount, estimated, estimated_rows
from .held import HELD
from .meters import JOB_BACKLOG, JOB_BACKLOG_SAMPLES, JOB_FAILED, JOB_SUCCESSFUL, RUNS_OF, Counts
from .throughput import Runs, step_of, times_of

#: The kinds of subjects, with the column of jobs that names one.
KINDS = {"handler": "handler_type", "category": "category", "tenant": "tenant_id"}
FAILED = "failed"
#: How many of the busiest subjects of a kind a node counts in each METER_INTERVAL.
MOST = {"handler": 50, "category": 50, "tenant": 20}
RUNS_SHOWN = 10
GROUPS_SHOWN = 10
#: How many of the latest log entries are searched for the last runs.
LATEST = 10_000
#: How many of the failures among them are searched for their groups.
FAILURES_READ = 1000
#: How many jobs of each table are searched for the resources of a subject.
MOST_WITH_RESOURCE = 2000


def meter_of(kind: str, value: str) -> str:
    """The name of the meter of a subject's runs: values may be longer than names."""
    return f"{RUNS_OF}{kind}:{blake2b(str(value).encode(), digest_size=16).hexdigest()}"


def counts_of_subjects(runs: Mapping[tuple[str, str, str], Sequence[int]]) -> Counts:
    """The meters for runs by handler, category and tenant: a count for each bucket, and last that of failures."""
    found: dict[tuple[str, str], int] = {}
    for at, kind in enumerate(KINDS):
        sums: dict[str, list[int]] = {}
        for subject, counts in runs.items():
            if subject[at]:
                into = sums.setdefault(subject[at], [0] * len(counts))
                into[:] = map(int.__add__, into, counts)
        busiest = sorted(sums, key=lambda value: sum(sums[value]), reverse=True)[: MOST[kind]]
        for value in busiest:
            name = meter_of(kind, value)
            found |= {(name, key): n for key, n in zip((*KEYS, FAILED), sums[value], strict=True) if n}
    return found


@dataclass(frozen=True, slots=True)
class GroupShare:
    """A group of failures, and how many open incidents of the subject belong to it, among the latest of all.

    Without an estimate: PostgreSQL takes the group and the subject of an incident for independent of each other.
    """

    group: FailureGroup
    incidents: CappedCount


@dataclass(frozen=True, slots=True)
class Standing:
    """How many jobs of the subject are in each table, among its oldest rows: those that wait, and those that are held.

    Of tables with more rows, PostgreSQL estimates those that wait. Those that are held change too fast for statistics;
    they are found along indexes (:mod:`~jobexec.operations.reports.held`).
    """

    tables: dict[type[AbstractJob], CappedCount]
    running: CappedCount


def runs_of(using: str, kind: str, value: str, now: datetime, period: timedelta) -> Runs:
    """The runs of a subject in the last ``period``, in one statement."""
    step = step_of(period)
    since = floor(now - period, step)
    rows = MeterLog.objects.using(using).filter(name=meter_of(kind, value), timestamp__gte=since, timestamp__lt=now)
    counts: list[Counter[str]] = [Counter() for _ in range(-(-(now - since) // step))]
    for key, slot, count in sums_by_slot(rows, "key", since=since, step=step):
        counts[slot][key] += count
    failed = [each.pop(FAILED, 0) for each in counts]
    return Runs(since, step, [each.total() for each in counts], failed, times_of(since, step, counts))


def standing_of(using: str, kind: str, value: str, tenants: Collection[str] | None = None) -> Standing:
    """Count the jobs of a subject, of all tenants or of these, with one bounded statement for each table."""
    meant = Q(**{KINDS[kind]: value}) & (Q() if tenants is None else Q(tenant_id__in=tenants))
    now, tables, running = clock.now(using), {}, []
    for table in JOB_TABLES:
        rows = table._base_manager.using(using).order_by("pk")[: COUNT_LIMIT + 1]
        found = rows.aggregate(
            all=Count("pk"),
            free=Count("pk", filter=meant & free(table, now)),
            held=Count("pk", filter=meant & held(table, now)),
        )
        more = found["all"] > COUNT_LIMIT
        tables[table] = CappedCount.upto(found["free"], more)
        if more:
            tables[table].estimate = estimated(table._base_manager.using(using).filter(meant, free(table, now)))
        if table in HELD:
            running.append(_running(using, table, meant, now, found["held"], more))
    return Standing(tables, CappedCount.total(*running))


def _running(using: str, table: type[AbstractJob], meant: Q, now: datetime, seen: int, more: bool) -> CappedCount:
    """The jobs of a table that are held, of which some were seen; ``more``: it has rows that were not counted."""
    if not more:
        return CappedCount.upto(seen)
    found = HELD[table](using, meant, now)
    return CappedCount.upto(max(seen, found), found.capped)


def groups_of(using: str, kind: str, value: str, tenants: Collection[str] | None = None) -> list[GroupShare]:
    """The groups of the latest open incidents of a subject, and its latest groups without any: of failures that were
    retried. Those of a category or a tenant are known from the latest entries of the log."""
    rows = Incident.objects.using(using).filter(state=IncidentState.OPEN).order_by("-timestamp")
    found = rows.values_list("fingerprint", KINDS[kind], "tenant_id")[: COUNT_LIMIT + 1]
    seen = list(found)
    counts = Counter(
        alike for alike, of, tenant in seen if alike and of == value and (tenants is None or tenant in tenants)
    )
    names = [alike for alike, _ in counts.most_common(GROUPS_SHOWN)]
    table = FailureGroup.objects.using(using)
    groups = {group.pk: group for group in table.filter(pk__in=names)}
    if kind == "handler":
        others = Q(handler_type=value)
    else:
        meant = Q(**{KINDS[kind]: value}) & (Q() if tenants is None else Q(tenant_id__in=tenants))
        log = JobLog.objects.using(using).filter(latest_entries(using), meant, state=LogState.FAILED)
        # Values, as MySQL takes no LIMIT within IN.
        failed = log.exclude(fingerprint="").order_by("-pk").values_list("fingerprint", flat=True)
        others = Q(pk__in=set(failed[:FAILURES_READ]))
    latest = table.filter(others).order_by("-last_time")[:GROUPS_SHOWN]
    groups |= {group.pk: group for group in latest if group.pk not in groups}
    shares = [GroupShare(group, CappedCount.upto(counts[pk], len(seen) > COUNT_LIMIT)) for pk, group in groups.items()]
    shares.sort(key=lambda each: (int(each.incidents), each.group.last_time), reverse=True)
    return shares[:GROUPS_SHOWN]


def latest_entries(using: str) -> Q:
    """The condition of the :data:`LATEST` entries of the log: it has no index by handler, category or tenant."""
    rows = JobLog.objects.using(using).order_by("-pk").values_list("pk", flat=True)
    first = rows[LATEST - 1 : LATEST].first()
    return Q() if first is None else Q(pk__gte=first)


@dataclass(frozen=True, slots=True)
class Split:
    """A figure over time by name: those with the most, and the sum of the others under ''."""

    since: datetime
    step: timedelta
    values: dict[str, list[float]]


#: By what runs are split, with the column of the meter log that tells them apart.
_SPLIT_COLUMNS = {"handler": "key", "category": "name", "node": "reporter"}
SPLITS = tuple(_SPLIT_COLUMNS)
SPLIT_SHOWN = 5


def split_by(using: str, by: str, now: datetime, period: timedelta, names: Sequence[str] = ()) -> Split:
    """The runs that succeeded or failed in the last ``period``, by handler, category or node.

    ``names`` are the categories; all others, and those that a node did not count (:data:`MOST`), are among the rest.
    Rows of nodes are kept apart for two hours only. All of jobexec's own handlers are one.
    """
    step = step_of(period)
    since = floor(now - period, step)
    length = -(-(now - since) // step)
    titles = {meter_of("category", name): name for name in names} if by == "category" else {}
    rows = MeterLog.objects.using(using).filter(
        name__in=(JOB_SUCCESSFUL, JOB_FAILED, *titles), timestamp__gte=since, timestamp__lt=now
    )
    if by == "node":
        rows = rows.exclude(reporter="")
    found: dict[str, list[float]] = {}
    for name, slot, count in sums_by_slot(rows, _SPLIT_COLUMNS[by], since=since, step=step):
        found.setdefault(own_together(name) if by == "handler" else name, [0.0] * length)[slot] += count
    rest = _not_counted(found, titles, length) if by == "category" else [0.0] * length
    return Split(since, step, _most(found, rest))


def _not_counted(found: dict[str, list[float]], titles: Mapping[str, str], length: int) -> list[float]:
    """Name the categories by ``titles`` in place of their meters; return the runs that none of them has."""
    every = [found.pop(name, [0.0] * length) for name in (JOB_SUCCESSFUL, JOB_FAILED)]
    for meter in list(found):
        found[titles[meter]] = found.pop(meter)
    counted = [sum(counts) for counts in zip(*found.values(), strict=True)] if found else [0.0] * length
    return [max(0.0, sum(each) - known) for *each, known in zip(*every, counted, strict=True)]


def _most(found: dict[str, list[float]], rest: list[float]) -> dict[str, list[float]]:
    names = sorted(found, key=lambda name: (-sum(found[name]), name))
    shown = {name: found[name] for name in names[:SPLIT_SHOWN]}
    others = [sum(found[name][at] for name in names[SPLIT_SHOWN:]) + more for at, more in enumerate(rest)]
    return {**shown, "": others} if any(others) else shown


def backlog(using: str, categories: Sequence[str]) -> Counts:
    """A sample of how many executable jobs wait in each category; sums of such meters give averages over time.

    Of a table with more than :data:`COUNT_LIMIT` rows only the oldest are counted, in proportion to its estimated size.
    """
    names = {f"c{at}": name for at, name in enumerate(categories)}
    rows = Job._base_manager.using(using).order_by("pk")[: COUNT_LIMIT + 1]
    found = rows.aggregate(
        all=Count("pk"),
        **{at: Count("pk", filter=Q(category=name, lock_owner=None)) for at, name in names.items()},
    )
    scale, counted = 1.0, found.pop("all")
    if counted > COUNT_LIMIT and (size := estimated_rows(using, Job) or 0) >= ESTIMATES_FROM * COUNT_LIMIT:
        scale = size / counted
    sample = {(JOB_BACKLOG, names[at]): round(count * scale) for at, count in found.items() if count}
    return {**sample, (JOB_BACKLOG_SAMPLES, ""): 1} if sample else {}


def backlog_over_time(
    using: str, now: datetime, period: timedelta, category: str | None = None
) -> list[tuple[datetime, float]]:
    """How many executable jobs waited on average in each step of the last ``period``.

    Nodes sample about once in a step, so a single step without a sample is like the one before. Where nothing waits,
    they write no samples.
    """
    step = step_of(period)
    since = floor(now - period, step)
    rows = MeterLog.objects.using(using).filter(
        name__in=(JOB_BACKLOG, JOB_BACKLOG_SAMPLES), timestamp__gte=since, timestamp__lt=now
    )
    length = -(-(now - since) // step)
    sums, samples = [0] * length, [0] * length
    for name, key, slot, count in sums_by_slot(rows, "name", "key", since=since, step=step):
        if name == JOB_BACKLOG_SAMPLES:
            samples[slot] += count
        elif category is None or key == category:
            sums[slot] += count
    values = [sums[at] / samples[at] if samples[at] else 0.0 for at in range(length)]
    return [
        (since + at * step, values[at - 1] if at and samples[at - 1] and not samples[at] else values[at])
        for at in range(length)
    ]


def resources_of(using: str, kind: str, value: str) -> list[str]:
    """The resources that jobs of a subject name, the most frequent first, among some thousand jobs with one."""
    found: Counter[str] = Counter()
    for table in (Job, ExternalWorkerJob, BlockedJob):
        rows = table._base_manager.using(using).filter(resource__isnull=False).order_by()
        seen = rows.values_list(KINDS[kind], "resource")[:MOST_WITH_RESOURCE]
        found.update(resource for of, resource in seen if of == value and resource)
    return [name for name, _ in found.most_common(SPLIT_SHOWN)]


def last_runs(using: str, kind: str, value: str, tenants: Collection[str] | None = None) -> Any:
    """The last entries of the log about runs of a subject, among the latest of all."""
    ours = Q() if tenants is None else Q(tenant_id__in=tenants)
    rows = JobLog.objects.using(using).filter(latest_entries(using), ours, **{KINDS[kind]: value})
    return rows.filter(attempt__gt=0).defer("exception_stack").order_by("-pk")[:RUNS_SHOWN]
