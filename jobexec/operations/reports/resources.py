"""The resources of an engine: what they bear, what is in use, what waits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import F, Q
from django.utils.formats import number_format
from django.utils.translation import gettext as _

from jobexec import clock
from jobexec.conf import get_settings
from jobexec.conf.resources import ResourceLimits
from jobexec.models import AbstractJob, BlockedJob, BreakerState, Resource

from ..resources.limits import PERMITS, Room, entries_of, held_state, is_cut_off, limits_of, room_of, room_of_rate
from ..resources.promote import blocked_resources
from ..sql.capped import count_each
from ..values.humanize import both
from . import counts
from .counts import CappedCount

#: The maximum number of resources in one report, not necessarily those with the most waiting jobs.
SHOWN = 1000
#: Up to how many waiting jobs are counted: of each resource, of many resources together, and at least of each of those.
COUNTED, TOGETHER, FEWEST = 1000, 20_000, 20


@dataclass(frozen=True, slots=True)
class ResourceStatus:
    """A resource at a time: its limits, and its permits.

    ``limits`` None: no entry of RESOURCES in this process covers it. ``free``: the next job may have a permit now;
    otherwise ``until`` is when its rate or its breaker lets it, if it is that which keeps it. ``rate_free``: how many
    jobs its rate alone lets start now, and if none, ``rate_until``: when it lets the next one. ``changed``: an operator
    has changed a limit or a rate.
    """

    name: str
    entry: str
    limits: ResourceLimits | None
    in_use: CappedCount
    waiting: CappedCount
    breaker: str
    """"closed", "open" or "half open"; '' without a breaker and without a hold."""
    held: bool
    reason: str
    free: bool
    until: datetime | None
    changed: bool
    promoted: int
    time: datetime
    rate_free: int | None
    rate_until: datetime | None

    @property
    def breaker_words(self) -> str:
        """The state of the breaker for people; '' without one."""
        if self.held:
            return _("held open") if self.breaker == BreakerState.OPEN else _("held closed")
        return str(BreakerState(self.breaker).label) if self.breaker else ""

    @property
    def rate_words(self) -> str:
        """What its rate alone lets start, for people; '' without a rate."""
        if self.rate_until is not None:
            return _("the next job on %(time)s") % {"time": both(self.rate_until, self.time)}
        if self.rate_free is None or self.limits is None or self.limits.rate is None:
            return ""
        numbers = {"free": self.rate_free, "burst": self.limits.rate.burst}
        shown = {name: number_format(number, force_grouping=True) for name, number in numbers.items()}
        return _("%(free)s of %(burst)s now") % shown

    def as_json(self) -> dict[str, Any]:
        """The status as JSON values, with times in ISO 8601."""
        limits = self.limits or ResourceLimits()
        return {
            "name": self.name,
            "entry": self.entry,
            "limit": limits.limit,
            "rate": str(limits.rate) if limits.rate else None,
            "rate_free": self.rate_free,
            "rate_until": None if self.rate_until is None else self.rate_until.isoformat(),
            "in_use": int(self.in_use),
            "in_use_capped": self.in_use.capped,
            "waiting": int(self.waiting),
            "waiting_capped": self.waiting.capped,
            "breaker": self.breaker or None,
            "held": self.held,
            "reason": self.reason,
            "until": None if self.until is None else self.until.isoformat(),
            "changed": self.changed,
            "promoted": self.promoted,
        }


def resource_names(using: str) -> list[str]:
    """The names of the resources that are declared by name, have been used, or have jobs; at most :data:`SHOWN`."""
    declared = {name for name in get_settings().resources if not name.endswith("*")}
    known = Resource.objects.using(using).exclude(name__endswith="*").order_by("name").values_list("name", flat=True)
    return sorted({*declared, *known[:SHOWN], *blocked_resources(using)})[:SHOWN]


def resource_status(using: str, names: Collection[str]) -> list[ResourceStatus]:
    """The status of each of these resources. Locks nothing; a few statements for any number."""
    seen = _Seen(using, names)
    return [_status(name, seen) for name in names]


class _Seen:
    """The rows from which the status of resources is computed, read for all of them at once."""

    def __init__(self, using: str, names: Collection[str]) -> None:
        self.now, self._entries = clock.now(using), entries_of(names)
        self._rows = Resource.objects.using(using).in_bulk({*names, *self._entries.values()})
        self.limits = {name: limits_of(self.row(name), self.of_entry(name)) for name in names}
        # Counted up to its limit, which shows whether a permit is free.
        most = {name: max(COUNTED, (limits and limits.limit) or 0) for name, limits in self.limits.items()}
        self.in_use = _added(_counts(using, table, most) for table in PERMITS)
        self.waiting = _waiting(using, names)

    def row(self, name: str) -> Resource:
        return self._rows.get(name) or Resource(name=name)

    def of_entry(self, name: str) -> Resource | None:
        return self._rows.get(self._entries.get(name, ""))


def _added(found: Iterable[Mapping[str, CappedCount]]) -> dict[str, CappedCount]:
    """The sums of these counts, which are of the same names."""
    parts = list(found)
    sums = {name: sum(each[name] for each in parts) for name in parts[0]}
    capped = {name for each in parts for name, count in each.items() if count.capped}
    return {name: CappedCount.upto(count, name in capped or count > counts.COUNT_LIMIT) for name, count in sums.items()}


def _counts(using: str, table: type[AbstractJob], most: Mapping[str, int]) -> dict[str, CappedCount]:
    upto = {name: limit + 1 for name, limit in most.items()}
    # A job that waits for a message as well does not wait for its resource yet.
    found = count_each(using, table, "resource", upto, among=Q(waits_for=None) if table is BlockedJob else None)
    return {name: _capped(count, most[name]) for name, count in found.items()}


def _waiting(using: str, names: Collection[str]) -> dict[str, CappedCount]:
    """How many jobs wait for each of these resources; the more resources, the earlier their counts end."""
    most = min(COUNTED, max(FEWEST, TOGETHER // max(1, len(names))))
    return _counts(using, BlockedJob, dict.fromkeys(names, most))


def _capped(found: int, most: int) -> CappedCount:
    count = CappedCount(min(found, most))
    count.capped = found > most
    return count


def _status(name: str, seen: _Seen) -> ResourceStatus:
    row, limits, used = seen.row(name), seen.limits[name], seen.in_use[name]
    hold = held_state(row, seen.now)
    breaker = hold or (row.breaker_state if limits is not None and limits.breaker is not None else "")
    if breaker == BreakerState.OPEN and not is_cut_off(row, seen.now):
        breaker = BreakerState.HALF_OPEN.value
    room = Room(0) if limits is None else room_of(row, limits, used, seen.now)
    of_rate = None if limits is None or limits.rate is None else room_of_rate(row, limits.rate, seen.now)
    return ResourceStatus(
        name=name,
        entry=get_settings().resources.covering(name) or "",
        limits=limits,
        in_use=used,
        waiting=seen.waiting[name],
        breaker=str(breaker),
        held=hold is not None,
        reason=row.reason,
        free=room.jobs > 0,
        until=None if room.jobs else room.until,
        changed=any(each is not None and (each.limit is not None or each.rate) for each in (row, seen.of_entry(name))),
        promoted=row.promoted,
        time=seen.now,
        rate_free=None if of_rate is None else of_rate.jobs,
        rate_until=None if of_rate is None or of_rate.jobs else of_rate.until,
    )


def holders(using: str, name: str, limit: int = 10) -> list[AbstractJob]:
    """The first jobs that hold permits of a resource, those that run or wait for a thread first."""
    found: list[AbstractJob] = []
    for table in PERMITS:
        rows = table._base_manager.using(using).filter(resource=name).defer("handler_configuration", "exception_stack")
        found += rows.order_by(F("lock_owner").asc(nulls_last=True), "rank", "id")[:limit]
    return found[:limit]


@dataclass(frozen=True, slots=True)
class EntryTotals:
    """The permits in use, and the jobs waiting, of all resources that an entry of RESOURCES covers."""

    in_use: CappedCount
    waiting: CappedCount


def totals(using: str) -> dict[str, EntryTotals]:
    """The numbers of jobs by entry of RESOURCES: entries are few, whatever the names are.

    Those of an entry without ``*`` are counted up to :data:`~.counts.COUNT_LIMIT`. For all patterns together that many
    rows of each table are looked at, the oldest blocked jobs.
    """
    entries = list(get_settings().resources)
    in_use = _added(_totals(using, table, "resource", entries) for table in PERMITS)
    waiting = _totals(using, BlockedJob, "pk", entries)
    return {entry: EntryTotals(in_use[entry], waiting[entry]) for entry in entries}


def _totals(using: str, table: type[AbstractJob], order: str, entries: Sequence[str]) -> dict[str, CappedCount]:
    most = counts.COUNT_LIMIT
    found = _counts(using, table, {entry: most for entry in entries if not entry.endswith("*")})
    if len(found) == len(entries):
        return found
    rows = table._base_manager.using(using).filter(resource__isnull=False, waits_for=None).order_by(order)
    names = list(rows.values_list("resource", flat=True)[: most + 1])
    covering = get_settings().resources.covering
    sums = Counter(covering(name or "") for name in names)
    patterns = (entry for entry in entries if entry.endswith("*"))
    return found | {entry: CappedCount.upto(sums[entry], len(names) > most) for entry in patterns}


def troubled(using: str, most: int) -> list[ResourceStatus]:
    """The resources whose breaker is not closed, then those for which jobs wait; looks at :data:`SHOWN` at most."""
    now = clock.now(using)
    broken = dict.fromkeys([*open_breakers(using, most), *_half_open(using, now, most)])
    waiting = _waiting(using, blocked_resources(using)[:SHOWN])
    longest = sorted(waiting, key=lambda name: (-waiting[name] - waiting[name].capped, name))[:most]
    found = resource_status(using, list(dict.fromkeys([*broken, *longest])))
    return sorted(found, key=lambda each: (each.breaker in ("", BreakerState.CLOSED), -each.waiting, each.name))[:most]


def _half_open(using: str, now: datetime, most: int) -> list[str]:
    rows = Resource.objects.using(using).exclude(held(now)).exclude(breaker_state=BreakerState.CLOSED).order_by("name")
    return [row.name for row in rows[:most] if _has_breaker(row)]


def open_breakers(using: str, most: int = 100) -> list[str]:
    """The names of the resources none of whose jobs may begin now, because of a breaker or of an operator."""
    now = clock.now(using)
    rows = Resource.objects.using(using).filter(cut_off(now)).order_by("name")
    return [row.name for row in rows[:SHOWN] if held_state(row, now) or _has_breaker(row)][:most]


def held(now: datetime) -> Q:
    """The condition on the rows of resources that operators hold."""
    return ~Q(hold="") & (Q(hold_until=None) | Q(hold_until__gt=now))


def cut_off(now: datetime) -> Q:
    """The condition on the rows of resources none of whose jobs may begin, if they still have a breaker."""
    broken = Q(breaker_state=BreakerState.OPEN) & (Q(trial_time=None) | Q(trial_time__gt=now))
    return (held(now) & Q(hold=BreakerState.OPEN)) | (broken & ~held(now))


def _has_breaker(row: Resource) -> bool:
    limits = limits_of(row)
    return limits is not None and limits.breaker is not None
