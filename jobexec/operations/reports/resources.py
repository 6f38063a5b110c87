"""The resources of an engine: what they bear, what is in use, what waits."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Count

from jobexec import clock
from jobexec.conf import get_settings
from jobexec.conf.resources import ResourceLimits
from jobexec.models import AbstractJob, BlockedJob, BreakerState, Resource

from ..resources.limits import PERMITS, entries_of, held_state, in_use, is_cut_off, limits_of, room_of
from ..resources.promote import blocked_resources
from .counts import CappedCount

#: The most resources in one report; those with most jobs waiting are not looked for.
SHOWN = 1000


@dataclass(frozen=True, slots=True)
class ResourceStatus:
    """A resource at a time: its limits, and its permits.

    ``limits`` None: no entry of RESOURCES in this process covers it. ``until``: when its rate or its breaker lets more
    jobs run. ``changed``: an operator has changed a limit or a rate.
    """

    name: str
    entry: str
    limits: ResourceLimits | None
    in_use: int
    waiting: CappedCount
    breaker: str
    """"closed", "open" or "half open"; '' without a breaker and without a hold."""
    held: bool
    reason: str
    until: datetime | None
    changed: bool
    promoted: int

    def as_json(self) -> dict[str, Any]:
        """The status as JSON values, with times in ISO 8601."""
        limits = self.limits or ResourceLimits()
        return {
            "name": self.name,
            "entry": self.entry,
            "limit": limits.limit,
            "rate": str(limits.rate) if limits.rate else None,
            "in_use": self.in_use,
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
    now, entries = clock.now(using), entries_of(names)
    rows = Resource.objects.using(using).in_bulk({*names, *entries.values()})
    used = in_use(using, names)
    return [_status(using, name, rows, entries.get(name, ""), used.get(name, 0), now) for name in names]


def _status(using: str, name: str, rows: dict[str, Resource], pattern: str, used: int, now: datetime) -> ResourceStatus:
    row = rows.get(name) or Resource(name=name)
    of_entry = rows.get(pattern)
    limits = limits_of(row, of_entry)
    held = held_state(row, now)
    breaker = held or (row.breaker_state if limits is not None and limits.breaker is not None else "")
    if breaker == BreakerState.OPEN and not is_cut_off(row, now):
        breaker = BreakerState.HALF_OPEN.value
    return ResourceStatus(
        name=name,
        entry=get_settings().resources.covering(name) or "",
        limits=limits,
        in_use=used,
        waiting=CappedCount.of(BlockedJob.objects.using(using).filter(resource=name)),
        breaker=str(breaker),
        held=held is not None,
        reason=row.reason,
        until=room_of(row, limits, used, now).until if limits is not None else None,
        changed=any(each is not None and (each.limit is not None or each.rate) for each in (row, of_entry)),
        promoted=row.promoted,
    )


def holders(using: str, name: str, limit: int = 10) -> list[AbstractJob]:
    """The first jobs that hold permits of a resource, those that run or wait for a thread first."""
    found: list[AbstractJob] = []
    for table in PERMITS:
        rows = table._base_manager.using(using).filter(resource=name).defer("handler_configuration", "exception_stack")
        found += rows.order_by("lock_owner", "rank", "id")[:limit]
    return found[:limit]


def totals(using: str) -> dict[str, dict[str, int]]:
    """The permits in use and the jobs waiting, by entry of RESOURCES: entries are few, whatever the names are."""
    covering = get_settings().resources.covering
    found: dict[str, dict[str, int]] = {entry: {"in_use": 0, "waiting": 0} for entry in get_settings().resources}
    tables: list[tuple[str, type[AbstractJob]]] = [*(("in_use", table) for table in PERMITS), ("waiting", BlockedJob)]
    for what, table in tables:
        rows = table._base_manager.using(using).filter(resource__isnull=False).order_by()
        for name, count in rows.values_list("resource").annotate(Count("pk")):
            entry = covering(name)
            if entry is not None:
                found[entry][what] += count
    return found
