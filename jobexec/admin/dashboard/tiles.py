"""The tiles at the top of the dashboard: the number of jobs in each state, at most six."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from django.utils.translation import gettext as _

from jobexec.models import (
    BlockedJob,
    DeadLetterJob,
    ExternalWorkerJob,
    HistoryJob,
    Incident,
    IncidentState,
    Job,
    SuspendedJob,
    TimerJob,
)
from jobexec.operations.overview import Overview
from jobexec.operations.reports.counts import CappedCount, JobCounts
from jobexec.operations.values.humanize import distance, duration

from .flow import per_second
from .visible_tables import VisibleTables

MOST = 6


@dataclass(frozen=True, slots=True)
class Tile:
    """A number with its name. ``kind`` is its colour: ok, work, wait, warn, bad, off; ``url`` may be empty."""

    name: str
    count: CappedCount
    kind: str
    url: str
    notes: tuple[str, ...] = ()


def tiles(seen: Overview, visible: VisibleTables) -> list[Tile]:
    """The tiles that this user may see, the most important first."""
    found = [] if seen.counts is None else list(_of_jobs(seen, seen.counts, visible))
    # Each dead letter has its incident: the same number twice.
    if seen.incidents is not None and not visible.may(DeadLetterJob):
        url = visible.list(Incident, state__exact=IncidentState.OPEN.value)
        found.append(Tile(_("Open incidents"), seen.incidents, "bad", url))
    return found[:MOST]


def _of_jobs(seen: Overview, counts: JobCounts, visible: VisibleTables) -> Iterator[Tile]:
    if visible.may(Job):
        yield Tile(_("Executable"), counts.free, "ok", visible.list(Job, lock="free"), tuple(_waiting(seen, counts)))
        held = _in_progress(seen, counts)
        yield Tile(_("In progress"), held, "work", visible.list(Job, lock="held"), tuple(_working(seen)))
    if visible.may(TimerJob):
        both = CappedCount.total(counts.timers, counts.retries)
        yield Tile(
            _("Timers"),
            both,
            "warn" if counts.retries else "wait",
            visible.list(TimerJob),
            tuple(_timing(seen, counts)),
        )
    if visible.may(DeadLetterJob):
        yield Tile(_("Dead letters"), counts.dead_letters, "bad", visible.list(DeadLetterJob))
    yield from _held_back(counts, visible)
    if visible.may(ExternalWorkerJob) and (counts.external or counts.with_workers):
        count = CappedCount.total(counts.external, counts.with_workers)
        notes = (_("%(count)s with workers") % {"count": counts.with_workers},) if counts.with_workers else ()
        yield Tile(_("External"), count, "ok", visible.list(ExternalWorkerJob), notes)
    if visible.may(HistoryJob):
        yield Tile(_("History to write"), counts.history, "wait", visible.list(HistoryJob))


def _held_back(counts: JobCounts, visible: VisibleTables) -> Iterator[Tile]:
    """Jobs that are suspended or blocked; both in one tile if there are both."""
    suspended, blocked = visible.may(SuspendedJob), visible.may(BlockedJob) and bool(counts.blocked)
    if suspended and blocked and counts.suspended:
        values = {"suspended": counts.suspended, "blocked": counts.blocked}
        notes = (_("%(suspended)s suspended, %(blocked)s blocked") % values,)
        both = CappedCount.total(counts.suspended, counts.blocked)
        yield Tile(_("Held back"), both, "off", visible.list(SuspendedJob), notes)
    elif blocked:
        yield Tile(_("Blocked"), counts.blocked, "wait", visible.list(BlockedJob))
    elif suspended:
        yield Tile(_("Suspended"), counts.suspended, "off", visible.list(SuspendedJob))


def _in_progress(seen: Overview, counts: JobCounts) -> CappedCount:
    """Of a large table only the oldest jobs are counted; the nodes know how many they hold."""
    if not counts.in_progress.capped or seen.nodes is None:
        return counts.in_progress
    held = sum(node.busy_threads + node.queued_jobs for node in seen.nodes if node.lease_good)
    count = CappedCount.total(counts.in_progress)
    count.estimate = max(held, int(count))
    return count


def _waiting(seen: Overview, counts: JobCounts) -> Iterator[str]:
    if counts.oldest_due is not None:
        waited = (seen.now - counts.oldest_due).total_seconds()
        yield _("oldest: %(time)s") % {"time": duration(max(0.0, waited))}
    rate = 0.0 if seen.traffic is None else seen.traffic.per_second
    if rate and counts.free and (counts.free.estimate or not counts.free.capped):
        yield _("empty in %(time)s at this rate") % {"time": duration(counts.free.likely / rate)}


def _working(seen: Overview) -> Iterator[str]:
    living = [node for node in seen.nodes or [] if node.lease_good]
    if living:
        values = {"busy": sum(node.busy_threads for node in living), "threads": sum(node.threads for node in living)}
        yield _("%(busy)d of %(threads)d threads busy") % values
    if seen.traffic is not None and seen.traffic.per_second:
        yield _("%(rate)s jobs/s") % {"rate": per_second(seen.traffic.per_second)}


def _timing(seen: Overview, counts: JobCounts) -> Iterator[str]:
    if counts.retries:
        yield _("%(count)s wait for a retry") % {"count": counts.retries}
    for timer in (seen.timers or [])[:1]:
        text = _("next %(when)s") if timer.due_date > seen.now else _("due %(when)s")
        yield text % {"when": distance(timer.due_date, seen.now)}
