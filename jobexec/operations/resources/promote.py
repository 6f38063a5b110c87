"""Promote blocked jobs: give them permits of their resources, in the order of their ranks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import chain, islice
from typing import Any, Protocol, cast
from uuid import UUID

from django.db import connections
from django.db.models import QuerySet

from jobexec import clock
from jobexec.conf.resources import ResourceLimits
from jobexec.models import AbstractJob, BlockedJob, BreakerState, Resource

from ..notify.broker import announce_ids
from ..notify.wake import wake_on_commit
from ..rows.start_due import COLUMNS, Found, Kept, start_due
from ..sql.dialect import dialect
from ..sql.insert import insert_missing
from ..sql.locks import atomic, lock_rows
from ..values.acquired_job import AcquiredJob, columns, from_row
from . import promote_statement
from .limits import (
    Room,
    entries_of,
    held_state,
    in_use,
    is_cut_off,
    limits_of,
    permit_time_after,
    room_of,
)
from .promote_statement import First

#: The most resources whose rows one transaction locks, and the most jobs that one statement moves.
_NAMES, _PAGE = 100, 500
#: How long ago a job must have expired, so that a node with a slower clock does not start it either.
_SURELY = timedelta(seconds=1)


@dataclass(slots=True)
class Promotion:
    """The result of a promotion: how many jobs ``moved``, and which resources to look at ``again``, and when.

    ``kept`` are those of them that are locked for the node that promotes. ``again`` None is at once. ``cut_off`` are
    those resources of which no job may begin now.
    """

    moved: int = 0
    kept: list[AcquiredJob] = field(default_factory=list)
    again: dict[str, datetime | None] = field(default_factory=dict)
    cut_off: set[str] = field(default_factory=set)


class Home(Protocol):
    """The node that promotes, if it can run the jobs itself."""

    @property
    def lock(self) -> Mapping[str, Any]:
        """The lock of a row, as its columns."""
        ...

    @property
    def wide(self) -> bool:
        """Whether it uses the columns of a wide scope."""
        ...

    def room(self) -> int:
        """How many more jobs it can take at most."""
        ...

    def takes(self, job: AcquiredJob, deployment: str) -> bool:
        """Whether it takes this job; called before the commit, and then the job counts as in its hands."""
        ...


def blocked_resources(using: str) -> list[str]:
    """The names of the resources for which jobs wait, also of those whose jobs still wait for a message."""
    with connections[using].cursor() as cursor:
        cursor.execute(dialect(using).different(BlockedJob._meta.db_table, "resource"))
        return [name for (name,) in cursor.fetchall() if name is not None]


def promote(
    using: str, names: Collection[str], limit: int, freed: Collection[str] = (), home: Home | None = None
) -> Promotion:
    """Move up to ``limit`` blocked jobs of each of these resources to the executable jobs, as far as it allows.

    A row of Job with a resource is a permit: permits in use are counted, and not stored, under the lock of the
    resource's row, which every transaction that takes permits locks first. Several nodes may call it at once. Permits
    of ``freed`` have just been returned: these resources are locked without a check before. Jobs that ``home`` takes
    are locked for it.
    """
    result, wanted = Promotion(), iter(sorted(names))
    while page := list(islice(wanted, _NAMES)):
        unknown = [name for name in page if name not in freed]
        hopeful = {*_hopeful(using, unknown, result)} if unknown else set()
        chosen = [name for name in page if name in freed or name in hopeful]
        if chosen:
            _promote(using, chosen, limit, result, home)
    return result


def _hopeful(using: str, names: Sequence[str], result: Promotion) -> list[str]:
    """Those resources that seem to have room, by a query without locks: nearly always there are none."""
    now, rows = clock.now(using), _rows(using, names)
    used = in_use(using, names)
    found = []
    for name in names:
        row = rows.get(name) or Resource(name=name)
        limits = _limits(rows, row)
        if limits is None:
            continue
        if is_cut_off(row, now):
            result.cut_off.add(name)
        room = room_of(row, limits, used.get(name, 0), now)
        if room.jobs:
            found.append(name)
        elif room.until is not None:
            result.again[name] = room.until
    return found


def _limits(rows: Mapping[str, Resource], row: Resource) -> ResourceLimits | None:
    return limits_of(row, rows.get(entries_of([row.name]).get(row.name, "")))


def _rows(using: str, names: Collection[str]) -> dict[str, Resource]:
    """The rows of these resources, and of the patterns that cover them."""
    wanted = {*names, *entries_of(names).values()}
    return Resource.objects.using(using).in_bulk(wanted)


def _promote(using: str, names: Sequence[str], limit: int, result: Promotion, home: Home | None) -> None:
    with atomic(using):
        rows, used = _locked(using, names)
        now = clock.now(using)
        rooms: dict[str, tuple[Resource, ResourceLimits, Room]] = {}
        for row in (rows[name] for name in names if name in rows):
            limits = _limits(rows, row)
            if limits is not None:
                rooms[row.name] = row, limits, room_of(row, limits, used.get(row.name, 0), now)
        result.again.update(dict.fromkeys(set(names) - rows.keys()))
        result.cut_off.update(name for name, (row, _, _) in rooms.items() if is_cut_off(row, now))
        taken = _Taken(using, home)
        found = {name: taken.first(name, min(limit, room.jobs)) for name, (_, _, room) in rooms.items() if room.jobs}
        rated = [name for name, (_, limits, _) in rooms.items() if limits.rate is not None]
        expired = _expired(using, [found.get(name, []) for name in rated], now)
        counts = {name: len(rows) for name, rows in found.items()}
        with taken.together():
            result.moved += taken.move(found.values())
            for name, count in counts.items():
                if count:
                    take(rooms[name][0], rooms[name][1], count - expired[name], now)
        for name, (_, _, room) in rooms.items():
            count = counts.get(name, 0)
            if count == limit < room.jobs or expired[name]:
                result.again[name] = None
            elif room.until is not None and (not room.jobs or count == room.jobs):
                result.again[name] = room.until
    result.kept += taken.kept


def _expired(using: str, found: Iterable[list[Found]], now: datetime) -> Counter[str | None]:
    """How many of these jobs have expired, by resource: they are promoted to be cancelled, and count for no rate."""
    ids = [pk for pk, *_ in chain.from_iterable(found)]
    if not ids:
        return Counter()
    rows = BlockedJob.objects.using(using).filter(pk__in=ids, expires_at__lte=now - _SURELY)
    return Counter(rows.order_by().values_list("resource", flat=True))


def locked_resources(using: str, names: Sequence[str]) -> dict[str, Resource]:
    """Lock the rows of these resources, in the order of their names; also returns those of patterns, not locked.

    A resource has no row before its first job is promoted. Under REPEATABLE READ a row may be missing that another
    transaction has just inserted.
    """
    rows, _ = _locked(using, names)
    return rows


def _locked(using: str, names: Sequence[str]) -> tuple[dict[str, Resource], Counter[str]]:
    """The locked rows, and the permits in use since they are locked."""
    rows = Resource.objects.using(using).filter(pk__in=names).order_by("pk")
    if promote_statement.is_possible(using):
        found, used = promote_statement.lock_resources(using, names)
    else:
        found = list(lock_rows(rows.all()))
        used = in_use(using, names)
    missing = {*names}.difference(row.name for row in found)
    if missing:
        insert_missing(using, Resource, [_new(name) for name in sorted(missing)])
        found = list(lock_rows(rows.all()))
        used = in_use(using, names)
    patterns = {*entries_of(names).values()}
    return {row.name: row for row in found} | Resource.objects.using(using).in_bulk(patterns), used


def _new(name: str) -> dict[str, Any]:
    row = Resource(name=name)
    return {each.attname: getattr(row, each.attname) for each in Resource._meta.concrete_fields}


def take(row: Resource, limits: ResourceLimits, count: int, now: datetime) -> None:
    """Record that permits of a locked resource were taken.

    Always writes: under REPEATABLE READ another transaction that waited for this lock has counted the permits in its
    own, older snapshot, and only a changed row makes the database refuse its work.
    """
    changes: dict[str, Any] = {"promoted": row.promoted + count}
    if limits.rate is not None:
        changes["next_permit_time"] = permit_time_after(row, limits.rate, count, now)
    if limits.breaker is not None and row.breaker_state == BreakerState.OPEN and held_state(row, now) is None:
        changes |= {"breaker_state": BreakerState.HALF_OPEN, "breaker_time": now, "trials": 0}
    using = row._state.db or "default"
    if promote_statement.is_possible(using):
        promote_statement.update_resource(using, row.pk, changes)
    else:
        Resource.objects.using(using).filter(pk=row.pk).update(**changes)


class _Taken:
    """The jobs that one transaction promotes, and those of them that stay with the node."""

    def __init__(self, using: str, home: Home | None) -> None:
        self._using, self._home = using, home
        self.kept: list[AcquiredJob] = []
        #: Whether no job is external and no suspension in force, as far as it is known.
        self._plain = promote_statement.is_possible(using)

    def first(self, name: str, count: int) -> list[Found]:
        """Lock the first blocked jobs of a resource, by rank. Rows that others hold are skipped: they are changing."""
        at_home = min(count, self._home.room()) if self._home is not None else 0
        found = self._offered(name, at_home, self._home) if self._home is not None and at_home > 0 else []
        if at_home <= len(found) < count:
            found += self._more(name, count - len(found), [pk for pk, *_ in found])
        return found

    def _more(self, name: str, count: int, besides: list[UUID]) -> list[Found]:
        """Others, which this node does not run, or not at once."""
        if not promote_statement.is_possible(self._using):
            rows = _in_line(self._using, name).exclude(pk__in=besides)
            return list(lock_rows(rows, skip_locked=True).values_list(*COLUMNS)[:count])
        found: list[Found] = []
        for *row, suspensions in promote_statement.more(self._using, name, count, besides):
            _, requested, _, job_key, _ = each = cast(Found, tuple(row))
            self._plain = self._plain and not (suspensions or requested) and job_key is None
            found.append(each)
        return found

    def _offered(self, name: str, count: int, home: Home) -> list[Found]:
        """The first ones, with all that the node needs to run them."""
        found: list[Found] = []
        read = promote_statement.first if promote_statement.is_possible(self._using) else _read
        for job, job_key, deployment, suspensions in read(self._using, name, count, home.lock["lock_owner"], home.wide):
            self._plain = self._plain and not (suspensions or job.suspend_requested) and job_key is None
            found.append((job.id, job.suspend_requested, job.resource, job_key, job.handler_type))
            job.revision += 1
            if job_key is None and home.takes(job, deployment):
                self.kept.append(job)
        return found

    def together(self) -> AbstractContextManager[None]:
        """For the statements that write, whose results nobody needs if all jobs are plain."""
        return dialect(self._using).pipeline(connections[self._using]) if self._plain else nullcontext()

    def move(self, found: Iterable[list[Found]]) -> int:
        """Move the jobs; returns how many."""
        lock = self._home.lock if self._home is not None else {}
        stay = Kept({job.id for job in self.kept}, lock)
        if self._plain:
            ids = [pk for pk, *_ in chain.from_iterable(found)]
            others = [pk for pk in ids if pk not in stay.ids]
            if ids:
                promote_statement.move(self._using, ids, stay.ids, lock)
            if others:
                wake_on_commit(self._using)
                announce_ids(self._using, others)
            return len(ids)
        pages = _pages(found)
        count = sum(start_due(self._using, BlockedJob, page, permitted=True, kept=stay) for page in pages)
        self.kept = [job for job in self.kept if job.id in stay.ids]
        return count


def _in_line(using: str, name: str) -> QuerySet[BlockedJob]:
    order = ("waits_for", "rank", "id") if dialect(using).orders_by_nulls else ("rank", "id")
    return BlockedJob.objects.using(using).filter(resource=name, waits_for=None).order_by(*order)


def _read(using: str, name: str, count: int, owner: str, wide: bool) -> Iterator[First]:
    """The form that defines :func:`~jobexec.operations.resources.promote_statement.first`, without suspensions."""
    rows = lock_rows(_in_line(using, name), skip_locked=True)
    for *row, job_key, deployment in rows.values_list(*columns(wide), "job_key", "deployment_id")[:count]:
        yield First(from_row(tuple(row), using, owner), job_key, deployment, False)


def _pages(found: Iterable[list[Found]]) -> Iterator[list[Found]]:
    everything = chain.from_iterable(found)
    while page := list(islice(everything, _PAGE)):
        yield page


def permit_for(using: str, row: AbstractJob) -> bool:
    """Take a permit for one job, which the caller moves in the same transaction; False if there is none."""
    name = row.resource or ""
    with atomic(using):
        rows, used = _locked(using, [name])
        resource, now = rows.get(name), clock.now(using)
        limits = _limits(rows, resource) if resource is not None else None
        if resource is None or limits is None:
            return False
        if not room_of(resource, limits, used[name], now).jobs:
            return False
        take(resource, limits, 1, now)
    return True
