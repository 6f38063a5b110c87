"""The limits in force for a resource: those of the entry of RESOURCES that covers it, with operators' overrides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache

from django.db import connections

from jobexec import clock
from jobexec.conf import get_settings
from jobexec.conf.resources import Rate, ResourceLimits, rate
from jobexec.models import AbstractJob, BreakerState, ExternalWorkerJob, Job, Resource

#: The tables whose rows are permits, if they name a resource.
PERMITS: tuple[type[AbstractJob], ...] = (Job, ExternalWorkerJob)


@dataclass(frozen=True, slots=True)
class Room:
    """How many more jobs a resource lets run now, and when to look again if that is less than wanted.

    ``until`` None: a job that ends makes room, or an operator.
    """

    jobs: int
    until: datetime | None = None


def limits_of(row: Resource, of_entry: Resource | None = None) -> ResourceLimits | None:
    """The limits of a resource; ``of_entry`` is the row of the entry that covers it, if that is a pattern.

    None if no entry of this process's settings covers it, because another release has enqueued its jobs.
    """
    known = get_settings().resources
    entry = known.covering(row.name) or (row.name if row.name in known else None)
    if entry is None:
        return None
    limits = known[entry]
    for changed in (of_entry, row):
        if changed is not None and changed.limit is not None:
            limits = replace(limits, limit=changed.limit or None)
        if changed is not None and changed.rate:
            limits = replace(limits, rate=rate(changed.rate))
    return limits


def entries_of(names: Iterable[str]) -> dict[str, str]:
    """The patterns in RESOURCES that cover these resources, by their names."""
    covering = get_settings().resources.covering
    found = {name: covering(name) for name in names}
    return {name: entry for name, entry in found.items() if entry is not None and entry != name}


def in_use(using: str, names: Collection[str]) -> Counter[str]:
    """How many permits of these resources are taken. Locks nothing."""
    with connections[using].cursor() as cursor:
        cursor.execute(*in_use_statement(names))
        return added_up(cursor.fetchall())


def in_use_statement(names: Collection[str]) -> tuple[str, list[str]]:
    """The statement of :func:`in_use`, with its parameters."""
    return _in_use(len(names)), [*names] * len(PERMITS)


def added_up(counts: Iterable[tuple[str, int]]) -> Counter[str]:
    """The counts of a resource in the tables, added up."""
    used: Counter[str] = Counter()
    for name, count in counts:
        used[name] += count
    return used


@cache
def _in_use(count: int) -> str:
    # Written out: this runs for every permit that is returned, and Django takes longer to build the statement than the
    # database to answer it.
    of_names = f"WHERE resource IN ({', '.join(['%s'] * count)}) GROUP BY resource"
    return " UNION ALL ".join(f"SELECT resource, count(*) FROM {each._meta.db_table} {of_names}" for each in PERMITS)


def room_of(row: Resource, limits: ResourceLimits, used: int, now: datetime) -> Room:
    """How many more jobs of a resource may run while ``used`` permits are taken; pure."""
    jobs, until = _of_breaker(row, limits, used, now)
    if limits.limit is not None:
        jobs = min(jobs, max(0, limits.limit - used))
    if jobs > 0 and limits.rate is not None:
        rated = room_of_rate(row, limits.rate, now)
        if rated.jobs < jobs:
            return rated
    return Room(jobs, until)


def room_of_rate(row: Resource, rate: Rate, now: datetime) -> Room:
    """How many more jobs the rate lets start now, at most its burst, and when it lets one more; pure."""
    tolerance = rate.interval * (rate.burst - 1)
    arrival = max(row.next_permit_time or now, now)
    allowed = max(0, (now + tolerance - arrival) // rate.interval + 1)
    return Room(allowed, arrival + rate.interval * allowed - tolerance)


def permit_time_after(row: Resource, rate: Rate, taken: int, now: datetime) -> datetime:
    """The new ``next_permit_time`` after this number of permits has been taken."""
    return max(row.next_permit_time or now, now) + rate.interval * taken


_UNLIMITED = 2**31


def _of_breaker(row: Resource, limits: ResourceLimits, used: int, now: datetime) -> tuple[int, datetime | None]:
    """How many jobs the breaker lets through, and when it lets through more."""
    held = held_state(row, now)
    if held is not None:
        return (0, row.hold_until) if held == BreakerState.OPEN else (_UNLIMITED, None)
    if limits.breaker is None or row.breaker_state == BreakerState.CLOSED:
        return _UNLIMITED, None
    if row.trial_time is not None and now < row.trial_time:
        return 0, row.trial_time
    return max(0, limits.breaker.trial_calls - row.trials - used), None


def held_state(row: Resource, now: datetime) -> str | None:
    """The state in which an operator holds the breaker now; None if it is not held."""
    return row.hold if row.hold and (row.hold_until is None or row.hold_until > now) else None


def is_cut_off(row: Resource, now: datetime) -> bool:
    """Whether no job of the resource may begin: its breaker is open, or an operator holds it open."""
    held = held_state(row, now)
    if held is not None:
        return held == BreakerState.OPEN
    limits = limits_of(row)
    if row.breaker_state != BreakerState.OPEN or limits is None or limits.breaker is None:
        return False
    return row.trial_time is None or now < row.trial_time


def cut_off_among(using: str, names: Collection[str]) -> set[str]:
    """Those of these resources of which no job may begin."""
    if not names:
        return set()
    now = clock.now(using)
    return {row.name for row in Resource.objects.using(using).filter(pk__in=names) if is_cut_off(row, now)}


def is_closed(row: Resource, now: datetime) -> bool:
    """Whether no breaker limits the jobs of the resource, and no operator holds it open."""
    held, limits = held_state(row, now), limits_of(row)
    if held is not None:
        return held == BreakerState.CLOSED
    return row.breaker_state == BreakerState.CLOSED or limits is None or limits.breaker is None


def not_closed_among(using: str, names: Collection[str]) -> set[str]:
    """Those of these resources whose breaker limits their jobs."""
    if not names:
        return set()
    now = clock.now(using)
    return {row.name for row in Resource.objects.using(using).filter(pk__in=names) if not is_closed(row, now)}


def states(using: str, names: Collection[str]) -> dict[str, str]:
    """The states of these breakers; a resource without a row has never been used, and is closed."""
    rows = Resource.objects.using(using).filter(pk__in=names)
    return dict.fromkeys(names, BreakerState.CLOSED.value) | dict(rows.values_list("pk", "breaker_state"))
