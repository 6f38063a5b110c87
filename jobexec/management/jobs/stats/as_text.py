"""The overview of an engine as text: first problems, then numbers, then lists."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from django.utils.formats import number_format
from django.utils.translation import gettext as _
from django.utils.translation import pgettext

from jobexec.models import Job, Suspension
from jobexec.operations.overview import NodeStatus, Overview
from jobexec.operations.problems import problems
from jobexec.operations.reports.counts import CappedCount, JobCounts
from jobexec.operations.reports.throughput import SHARES, Traffic
from jobexec.operations.values.humanize import NONE, absolute, distance, duration, handler_name
from jobexec.redaction import calls_among

from ..output.screen import Screen
from ..output.table import Cell, Column, left_out
from ..output.text import bulleted, cut
from ..resources.rows import cells, columns


@dataclass(frozen=True, slots=True)
class Part:
    """A titled table: its first line is the head, the others are its rows."""

    title: str
    lines: list[str]

    def shown(self, screen: Screen, rows: int | None = None) -> Iterator[str]:
        """The part with at most this many rows; the title says if there are more."""
        there, title = len(self.lines) - 1, self.title
        if rows is not None and rows < there:
            title = _("%(title)s (%(shown)d of %(there)d)") % {"title": title, "shown": rows, "there": there}
        yield screen.style.MIGRATE_HEADING(title)
        yield from self.lines[: None if rows is None else rows + 1]


MakePart: TypeAlias = Callable[[Overview, Screen], Part | None]


def lines(seen: Overview, screen: Screen) -> Iterator[str]:
    """The whole overview, of any length."""
    yield from _head(seen, screen)
    for make in _PARTS:
        if part := make(seen, screen):
            yield ""
            yield from part.shown(screen)


def fitted(seen: Overview, screen: Screen, height: int) -> list[str]:
    """The overview in at most ``height`` lines: of each part some rows, and the names of the parts without room."""
    found = [part for make in _BY_WEIGHT if (part := make(seen, screen))]
    head = list(_head(seen, screen))[: max(1, height // 4)]
    rows: dict[int, int] = {}
    left = height - len(head) - 1  # a line for what is left out
    for at, part in enumerate(found):
        least = min(len(part.lines) - 1, _LEAST_ROWS)
        if left >= least + 2:
            rows[at], left = least, left - least - 2
    for at, part in enumerate(found):
        more = min(len(part.lines) - 1 - rows[at], left) if at in rows else 0
        rows, left = rows | ({at: rows[at] + more} if more else {}), left - more
    gaps, shown = left >= len(rows), list(head)
    for at, count in rows.items():
        shown += [*([""] if gaps else []), *found[at].shown(screen, count)]
    if without := [part.title for at, part in enumerate(found) if at not in rows]:
        text = _("No room for: %(parts)s") % {"parts": ", ".join(without)}
        shown.append(screen.style.WARNING(cut(text, screen.width or len(text))))
    return shown


def _head(seen: Overview, screen: Screen) -> Iterator[str]:
    title = _("Engine %(database)s on %(moment)s") % {"database": seen.using, "moment": absolute(seen.now)}
    yield screen.style.MIGRATE_HEADING(title)
    for problem in problems(seen):
        for line in bulleted(problem.text, "! ", screen.width):
            yield screen.style.ERROR(line)


def number(count: int) -> str:
    """A number with grouped digits; a count that reached its limit as its estimate, or with a plus."""
    return count.text if isinstance(count, CappedCount) else number_format(count, force_grouping=True)


def _counts(seen: Overview, screen: Screen) -> Part | None:
    if seen.counts is None:
        return None
    counts = seen.counts
    cells = {
        _("free"): counts.free,
        _("in progress"): counts.in_progress,
        _("timers"): counts.timers,
        pgettext("jobs that wait for one", "retries"): counts.retries,
        **({_("blocked"): counts.blocked} if counts.blocked else {}),
        _("suspended"): counts.suspended,
        pgettext("dead letters", "dead"): counts.dead_letters,
        **_outside(counts),
        _("history"): counts.history,
        _("incidents"): seen.incidents or 0,
    }
    oldest = NONE if seen.oldest_due is None else duration((seen.now - seen.oldest_due).total_seconds())
    # A narrow terminal first leaves out what the problems above report anyway.
    extra = {_("incidents"): 2, _("history"): 1, _("external"): 3, _("with workers"): 4}
    columns = [Column(title, right=True, extra=extra.get(title, 0)) for title in (*cells, _("oldest due"))]
    return _numbers(screen, _("Jobs"), columns, [*map(number, cells.values()), oldest])


def _outside(counts: JobCounts) -> dict[str, CappedCount]:
    """The counts of external jobs, if there are any."""
    if not (counts.external or counts.with_workers):
        return {}
    return {_("external"): counts.external, _("with workers"): counts.with_workers}


def _traffic(seen: Overview, screen: Screen) -> Part | None:
    if seen.traffic is None:
        return None
    through = seen.traffic
    titles = [_("done"), _("failed attempts"), *(f"{word} p{share * 100:g}" for word, share in _times())]
    cells = [number(through.all_succeeded), number(through.all_failed), *_shares(through)]
    title = _("The last %(period)s") % {"period": duration(seen.period.total_seconds())}
    columns = [Column(name, right=True, extra=place) for place, name in enumerate(titles)]
    return _numbers(screen, title, columns, cells)


def _times() -> list[tuple[str, float]]:
    return [(word, share) for word in (_("waited"), _("ran")) for share in SHARES]


def _shares(through: Traffic) -> list[str]:
    return [duration(times.overall[share]) for times in (through.wait, through.run) for share in SHARES]


def nodes(seen: Overview, screen: Screen) -> Part | None:
    columns = [
        Column(_("node"), least=10),
        Column(_("state")),
        Column(_("threads"), right=True),
        Column(_("queued"), right=True),
        Column(_("stuck"), right=True),
        Column(_("heartbeat"), right=True, extra=2),
        Column(_("lease"), right=True, extra=1),
        Column(_("id"), least=14, extra=3),
    ]
    rows = [_node(node, screen) for node in seen.nodes or []]
    return _part(screen, _("Nodes"), columns, rows)


def _node(node: NodeStatus, screen: Screen) -> list[Cell | str]:
    good = screen.style.SUCCESS if node.lease_good else screen.style.ERROR
    lease = node.lease_left.total_seconds()
    return [
        node.label,
        Cell(str(node.state.label), good),
        f"{node.busy_threads}/{node.threads}",
        f"{node.queued_jobs}/{node.queue_size}",
        Cell(str(node.stuck_threads), screen.style.ERROR if node.stuck_threads else str),
        duration(node.heartbeat_age.total_seconds()),
        Cell(duration(lease), good),
        str(node.id),
    ]


def _running(seen: Overview, screen: Screen) -> Part | None:
    columns = [
        Column(_("since"), right=True),
        Column(_("call"), least=28),
        Column(_("node"), least=10),
        Column(_("attempt"), right=True, extra=2),
        Column(_("tenant"), least=6, extra=3),
        Column(_("job"), least=14, extra=1),
    ]
    rows, running = [], seen.running or []
    held = Job.objects.using(seen.using).filter(pk__in=[each.id for each in running])
    calls = calls_among([held], seen.using) if running else {}
    for each in running:
        since = NONE if each.since is None else duration((seen.now - each.since).total_seconds())
        call = calls.get(each.id, each.handler_type)
        rows.append([since, call, each.node, str(each.attempt), each.tenant_id or NONE, str(each.id)])
    return _part(screen, _("In progress, the longest first"), columns, rows)


def _handlers(seen: Overview, screen: Screen) -> Part | None:
    columns = [
        Column(_("per minute"), right=True),
        Column(_("done"), right=True),
        Column(_("failed attempts"), right=True),
        Column(_("handler"), least=20, keep_end=True),
    ]
    rows: list[list[Cell | str]] = []
    for each in seen.handlers or []:
        failed = Cell(number(each.failed), screen.style.WARNING if each.failed else str)
        rate, done = number_format(each.per_minute, 1), number(each.succeeded)
        rows.append([rate, done, failed, handler_name(each.handler_type)])
    return _part(screen, _("Handlers"), columns, rows)


def _timers(seen: Overview, screen: Screen) -> Part | None:
    columns = [Column(_("due"), right=True), Column(_("handler"), least=12, keep_end=True)]
    columns += [Column(_("jobs"), right=True), Column(_("job"), extra=1)]
    rows = [
        [distance(each.due_date, seen.now), handler_name(each.handler_type), number(each.count), str(each.id)]
        for each in seen.timers or []
    ]
    return _part(screen, _("Next timers"), columns, rows)


def _schedules(seen: Overview, screen: Screen) -> Part | None:
    columns = [Column(_("next time"), right=True), Column(_("schedule"), least=12, keep_end=True)]
    columns.append(Column(_("expression"), least=9, extra=1))
    rows = [[distance(each.next_time, seen.now), each.name, each.expression] for each in seen.schedules or []]
    return _part(screen, _("Next schedules"), columns, rows)


def _suspensions(seen: Overview, screen: Screen) -> Part | None:
    columns = [Column(_("scope")), Column(_("value"), least=12), Column(_("from")), Column(_("until"))]
    rows = [_suspension(each, seen) for each in (*(seen.suspensions or []), *(seen.planned or []))]
    return _part(screen, _("Suspensions"), columns, rows)


def _suspension(suspension: Suspension, seen: Overview) -> list[str]:
    since, until = suspension.suspend_time or suspension.create_time, suspension.activate_time
    ends = NONE if until is None else distance(until, seen.now)
    return [str(suspension.get_scope_display()), suspension.shown_value, distance(since, seen.now), ends]


def _resources(seen: Overview, screen: Screen) -> Part | None:
    rows = [cells(each, seen.now, screen) for each in seen.resources or []]
    return _part(screen, _("Resources"), columns(), rows)


def _batches(seen: Overview, screen: Screen) -> Part | None:
    columns = [
        Column(_("batch")),
        Column(_("operation")),
        Column(_("state"), extra=3),
        Column(_("total"), right=True),
        Column(_("done"), right=True),
        Column(_("skipped"), right=True, extra=1),
        Column(_("failed"), right=True, extra=2),
    ]
    rows = []
    for each in seen.batches or []:
        batch, so_far = each.batch, each.progress
        numbers = map(number, (so_far.total, so_far.changed, so_far.skipped, so_far.failed_jobs))
        rows.append([str(batch.pk), batch.title, str(batch.get_state_display()), *numbers])
    return _part(screen, _("Batches"), columns, rows)


def failures(seen: Overview, screen: Screen) -> Part | None:
    columns = [
        Column(_("failures"), right=True),
        Column(pgettext("dead letters", "dead"), right=True),
        Column(_("last"), right=True),
        Column(_("group"), least=24),
        Column(_("message"), least=12, extra=1),
        Column(_("fingerprint"), extra=2),
    ]
    rows = []
    for each in seen.failure_groups or []:
        group, numbers = each.group, (number(each.group.count), number(each.dead_letters))
        last = distance(group.last_time, seen.now)
        rows.append([*numbers, last, str(group), group.message, group.fingerprint])
    return _part(screen, _("Groups of failures"), columns, rows)


def _numbers(screen: Screen, title: str, columns: Sequence[Column], numbers: Sequence[str]) -> Part | None:
    """A part with one row, whose title names the columns for which the terminal has no room."""
    without = left_out(columns, [numbers], None if screen.width is None else screen.width - 2)
    if without:
        title = _("%(title)s (no room for: %(parts)s)") % {"title": title, "parts": ", ".join(without)}
        title = cut(title, screen.width or len(title))
    return _part(screen, title, columns, [numbers])


def _part(screen: Screen, title: str, columns: Sequence[Column], rows: Sequence[Iterable[Cell | str]]) -> Part | None:
    return Part(title, list(screen.lines(columns, rows, indent=2))) if rows else None


#: All parts, in the order of ``jobs stats``.
_PARTS: tuple[MakePart, ...] = (
    _counts,
    _traffic,
    nodes,
    _running,
    _handlers,
    _timers,
    _schedules,
    _suspensions,
    _resources,
    _batches,
    failures,
)
#: The same by what is looked at first; the last ones are left out where there is no room.
_BY_WEIGHT: tuple[MakePart, ...] = (
    _counts,
    _traffic,
    _running,
    _handlers,
    nodes,
    failures,
    _resources,
    _suspensions,
    _batches,
    _timers,
    _schedules,
)
_LEAST_ROWS = 2
