"""The tiles at the top of the dashboard: the number of jobs in each state."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.db.models import Model
from django.utils.translation import gettext as _

from jobexec.models import (
    BlockedJob,
    DeadLetterJob,
    ExternalWorker,
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

from .visible_tables import VisibleTables


@dataclass(frozen=True, slots=True)
class Tile:
    """A number with its name. ``kind`` is its colour: ok, work, wait, warn, bad, off; ``url`` may be empty."""

    name: str
    count: CappedCount
    kind: str
    url: str
    note: str = ""


def tiles(seen: Overview, visible: VisibleTables) -> list[Tile]:
    """The tiles that this user may see."""
    found = [] if seen.counts is None else list(_of_jobs(seen, seen.counts, visible))
    if seen.incidents is not None:
        url = visible.list(Incident, state__exact=IncidentState.OPEN.value)
        found.append(Tile(_("Open incidents"), seen.incidents, "bad" if seen.incidents else "wait", url))
    if seen.unserved:
        count, url = CappedCount.upto(len(seen.unserved)), visible.list(ExternalWorker)
        found.append(Tile(_("Types without a worker"), count, "warn", url, _unserved(seen, seen.unserved[0].type)))
    return found


def _unserved(seen: Overview, first: str) -> str:
    return first if len(seen.unserved or []) == 1 else _("%(type)s and others") % {"type": first}


def _of_jobs(seen: Overview, counts: JobCounts, visible: VisibleTables) -> Iterator[Tile]:
    if visible.may(Job):
        yield Tile(_("Executable"), counts.free, "ok", visible.list(Job, lock="free"), _oldest(seen))
        yield Tile(_("In progress"), counts.in_progress, "work", visible.list(Job, lock="held"), _threads(seen))
    if visible.may(TimerJob):
        yield Tile(_("Timers"), counts.timers, "wait", visible.list(TimerJob, waiting="time"), _next(seen, retry=False))
        url = visible.list(TimerJob, waiting="retry")
        yield Tile(_("Waiting retries"), counts.retries, "warn", url, _next(seen, retry=True))
    if visible.may(BlockedJob) and counts.blocked:
        yield Tile(_("Blocked"), counts.blocked, "wait", visible.list(BlockedJob))
    if visible.may(ExternalWorkerJob) and (counts.external or counts.with_workers):
        url = visible.list(ExternalWorkerJob, lock="held")
        yield Tile(_("External"), counts.external, "ok", visible.list(ExternalWorkerJob, lock="free"))
        yield Tile(_("With workers"), counts.with_workers, "work", url)
    others: tuple[tuple[type[Model], Any, CappedCount, str], ...] = (
        (SuspendedJob, _("Suspended"), counts.suspended, "off"),
        (DeadLetterJob, _("Dead letters"), counts.dead_letters, "bad" if counts.dead_letters else "wait"),
        (HistoryJob, _("History to write"), counts.history, "wait"),
    )
    for table, name, count, kind in others:
        if visible.may(table):
            yield Tile(name, count, kind, visible.list(table))


def _oldest(seen: Overview) -> str:
    if seen.counts is None or seen.counts.oldest_due is None:
        return ""
    waited = (seen.now - seen.counts.oldest_due).total_seconds()
    return _("oldest: %(time)s") % {"time": duration(max(0.0, waited))}


def _threads(seen: Overview) -> str:
    living = [node for node in seen.nodes or [] if node.lease_good]
    if not living:
        return ""
    values = {"busy": sum(node.busy_threads for node in living), "threads": sum(node.threads for node in living)}
    return _("%(busy)d of %(threads)d threads busy") % values


def _next(seen: Overview, *, retry: bool) -> str:
    for timer in seen.timers or []:
        if bool(timer.attempts) is retry:
            text = _("next %(when)s") if timer.due_date > seen.now else _("due %(when)s")
            return text % {"when": distance(timer.due_date, seen.now)}
    return ""
