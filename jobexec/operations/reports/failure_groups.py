"""Groups of similar failures: how often they occurred, since when, and the latest message."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import connections, transaction
from django.db.models import F, Q, QuerySet

from jobexec import clock
from jobexec.models import AbstractJob, DeadLetterJob, FailureGroup, Incident, IncidentState

from ..sql.dialect import dialect_of
from ..sql.place import place
from ..values.fingerprint import exception_name, fingerprint
from .counts import COUNT_LIMIT, CappedCount, estimated

#: The group for failures beyond the number of groups that a node tracks.
OTHER = "other"


#: The maximum number of groups for each type that a process creates in a day from external workers' texts.
MOST_GROUPS_BY_TEXT = 100
_DAY = 24 * 3600.0  # seconds


class _GroupsByText:
    """The groups of each type that a process created today, so that a worker cannot create one for each text."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._of: dict[tuple[tuple[str, str, str], str], set[str]] = {}
        self._until = 0.0

    def admit(self, using: str, handler_type: str, fingerprint: str) -> bool:
        """Return whether the group exists already, or there is room for another."""
        key = (place(using), handler_type)
        with self._lock:
            now = clock.monotonic()
            if now >= self._until:
                self._of, self._until = {}, now + _DAY
            known = self._of.setdefault(key, set())
            if fingerprint not in known and len(known) >= MOST_GROUPS_BY_TEXT:
                return False
            known.add(fingerprint)
            return True

    def clear(self) -> None:
        with self._lock:
            self._of, self._until = {}, 0.0


groups_by_text = _GroupsByText()


def group_of_text(using: str, handler_type: str, message: str, stack: str = "") -> str:
    """The fingerprint of a failure that an external worker reports; that of OTHER if there are too many groups."""
    alike = fingerprint(handler_type, message, stack)
    return alike if groups_by_text.admit(using, handler_type, alike) else fingerprint(handler_type, OTHER)


@dataclass(slots=True)
class FailureCount:
    """The number of failures with a fingerprint on a node since its last flush, and the latest of them."""

    fingerprint: str
    handler_type: str
    exception: str
    message: str
    job_id: UUID | None
    first_time: datetime
    last_time: datetime
    count: int = 1


@dataclass(frozen=True, slots=True)
class GroupOfFailures:
    """A group, and the number of its current dead letters; a capped number is a lower bound."""

    group: FailureGroup
    dead_letters: CappedCount


def failure_groups(
    using: str, *, since: datetime | None = None, limit: int = 20, loud_at: datetime | None = None
) -> list[GroupOfFailures]:
    """The groups, latest failures first; with ``since`` only those that have failed since then.

    With ``loud_at`` only those that are neither acknowledged nor snoozed at that time.
    """
    rows = FailureGroup.objects.using(using).order_by("-last_time")
    if loud_at is not None:
        rows = rows.exclude(quiet_groups(loud_at))
    if since is not None:
        rows = rows.filter(last_time__gte=since)
    return [GroupOfFailures(group, _dead_letters(using, group.fingerprint)) for group in rows[:limit]]


def dead_letters_by_group(using: str, groups: Sequence[str]) -> dict[str, CappedCount]:
    """The number of dead letters of each of these groups: one statement, or one for each group if there are many."""
    rows = DeadLetterJob.objects.using(using).filter(fingerprint__in=groups).order_by()
    found = Counter(rows.values_list("fingerprint", flat=True)[: COUNT_LIMIT + 1])
    if found.total() > COUNT_LIMIT:
        return {alike: _dead_letters(using, alike) for alike in groups}
    return {alike: CappedCount(found[alike]) for alike in groups}


def _dead_letters(using: str, fingerprint: str, **more: Any) -> CappedCount:
    return CappedCount.of(DeadLetterJob.objects.using(using).filter(fingerprint=fingerprint, **more))


@dataclass(frozen=True, slots=True)
class TroublingGroup(GroupOfFailures):
    """A group with open incidents that is not quiet."""

    lately: CappedCount
    """The number of its dead letters of the last hour."""


@dataclass(frozen=True, slots=True)
class OpenIncidents:
    """The open incidents, among the latest :data:`~.counts.COUNT_LIMIT`."""

    total: CappedCount
    loud: CappedCount
    """Those of no group, or of a group that is neither acknowledged nor snoozed; never estimated."""
    groups: list[TroublingGroup]
    """The groups with the most of the loud ones."""


def quiet_groups(now: datetime) -> Q:
    """The condition that matches the groups that :meth:`FailureGroup.quiet` calls quiet."""
    dated = Q(snoozed_until=None) | Q(snoozed_until__gt=now)
    counted = Q(snoozed_to_count=None) | Q(snoozed_to_count__gte=F("count"))
    some = Q(snoozed_until__isnull=False) | Q(snoozed_to_count__isnull=False)
    return Q(acknowledged_at__isnull=False) | (some & dated & counted)


LATELY = timedelta(hours=1)
_MOST_JUDGED = 500  # SQLite limits the number of parameters


def incidents_by_group(
    using: str, now: datetime, tenants: Collection[str] | None = None, limit: int = 5
) -> OpenIncidents:
    """The open incidents, of all tenants or of these, and the ``limit`` groups to which the most of them belong."""
    rows, more = _latest_open(using, tenants, COUNT_LIMIT, "fingerprint")
    counts = Counter(alike for (alike,) in rows)
    first = [alike for alike, _ in counts.most_common(_MOST_JUDGED) if alike]
    groups = {group.pk: group for group in FailureGroup.objects.using(using).filter(pk__in=first)}
    loud = [alike for alike in counts if alike not in groups or not groups[alike].quiet(now)]
    shown = [alike for alike in first if alike in groups and alike in set(loud)][:limit]
    total = CappedCount.upto(counts.total(), more)
    if more:
        total.estimate = estimated(_open(using, tenants))
    return OpenIncidents(
        total=total,
        loud=CappedCount.upto(sum(counts[alike] for alike in loud), more),
        groups=[
            TroublingGroup(
                groups[alike], _dead_letters(using, alike), _dead_letters(using, alike, died_at__gte=now - LATELY)
            )
            for alike in shown
        ],
    )


def _open(using: str, tenants: Collection[str] | None = None) -> QuerySet[Incident]:
    ours = Q() if tenants is None else Q(tenant_id__in=tenants)
    return Incident.objects.using(using).filter(ours, state=IncidentState.OPEN)


def _latest_open(
    using: str, tenants: Collection[str] | None, most: int, *columns: str
) -> tuple[list[tuple[Any, ...]], bool]:
    """Columns of the latest open incidents, and whether there are more than ``most``."""
    seen = list(_open(using).order_by("-timestamp").values_list(*columns, "tenant_id")[: most + 1])
    return [row[:-1] for row in seen[:most] if tenants is None or row[-1] in tenants], len(seen) > most


INCIDENTS_READ = 50_000
"""How many of the latest open incidents are grouped."""


@dataclass(frozen=True, slots=True)
class SimilarIncidents:
    """Open incidents of one group of failures, or without a group of one handler or resource."""

    count: int
    since: datetime
    """When the first of them was opened."""
    latest: Incident
    group: FailureGroup | None


def similar_incidents(
    using: str, tenants: Collection[str] | None = None, limit: int = 100
) -> tuple[list[SimilarIncidents], bool, bool]:
    """The open incidents, among the latest :data:`INCIDENTS_READ`, by what has failed, the largest number first.

    Also whether there are more incidents than these, and more kinds of them than ``limit``. ``tenants``: only theirs.
    """
    rows, more = _latest_open(
        using, tenants, INCIDENTS_READ, "fingerprint", "handler_type", "resource", "pk", "timestamp"
    )
    alike: dict[tuple[Any, ...], list[tuple[UUID, datetime]]] = {}
    for *kind, pk, timestamp in rows:
        alike.setdefault(tuple(kind), []).append((pk, timestamp))
    kinds = sorted(alike, key=lambda kind: -len(alike[kind]))[:limit]
    latest = Incident.objects.using(using).in_bulk([alike[kind][0][0] for kind in kinds])
    groups = FailureGroup.objects.using(using).in_bulk({kind[0] for kind in kinds if kind[0]})
    found = [
        SimilarIncidents(len(alike[kind]), alike[kind][-1][1], latest[alike[kind][0][0]], groups.get(kind[0]))
        for kind in kinds
        if alike[kind][0][0] in latest  # it has just been deleted
    ]
    return found, more, len(alike) > limit


_COLUMNS = ("fingerprint", "handler_type", "exception", "message", "job_id", "first_time", "last_time", "count")
#: Columns that a later failure overwrites. The time comes last, because MariaDB assigns in this order, and the others
#: are compared with the old time.
_LATEST = ("exception", "message", "job_id", "last_time")
_MAX_ROWS = 100  # SQLite limits the number of parameters


def flush_failures(using: str, counts: Iterable[FailureCount]) -> None:
    """Add a node's counts to the groups; new groups are inserted.

    The database does the addition, so that a node cannot overwrite another's count. All nodes lock the groups in the
    order of their fingerprints, which prevents deadlocks. Call it in the transaction of the meters.
    """
    rows = sorted(counts, key=lambda each: each.fingerprint)
    for start in range(0, len(rows), _MAX_ROWS):
        _upsert(using, rows[start : start + _MAX_ROWS])


def count_failures(using: str, rows: Sequence[AbstractJob], alike: str, message: str) -> None:
    """Add similar failures of these jobs to their group, at the end of the transaction that settles them.

    For jobs that no node has run, and so no node counts. The row of the group is locked last, to prevent deadlocks;
    transactions with similar failures at the same time wait for each other's commit.
    """
    if rows:
        name, now, latest = exception_name(message)[:_NAME], clock.now(using), rows[-1]
        count = FailureCount(alike, latest.handler_type, name, message[:_MESSAGE], latest.pk, now, now, len(rows))
        flush_failures(using, [count])


_MESSAGE = FailureGroup._meta.get_field("message").max_length
_NAME = FailureGroup._meta.get_field("exception").max_length


def _upsert(using: str, rows: list[FailureCount]) -> None:
    connection: Any = connections[using]
    increments = dialect_of(connection).increments(connection)
    if increments is None:
        for each in rows:
            _add(using, each)
        return
    quote = connection.ops.quote_name
    table = quote(FailureGroup._meta.db_table)
    fields: list[Any] = [FailureGroup._meta.get_field(name) for name in _COLUMNS]
    row = f"({', '.join(['%s'] * len(fields))})"
    new, conflict = increments
    count, last_time = quote("count"), quote("last_time")
    changes = [f"{count} = {table}.{count} + {new.format(count)}"]
    for name in map(quote, _LATEST):
        changes.append(
            f"{name} = CASE WHEN {new.format(last_time)} >= {table}.{last_time} "
            f"THEN {new.format(name)} ELSE {table}.{name} END"
        )
    statement = (
        f"INSERT INTO {table} ({', '.join(map(quote, _COLUMNS))}) VALUES {', '.join([row] * len(rows))} "
        f"{conflict.format('fingerprint')} {', '.join(changes)}"
    )
    values = [field.get_db_prep_save(getattr(each, field.name), connection) for each in rows for field in fields]
    with connection.cursor() as cursor:
        cursor.execute(statement, values)


def _add(using: str, each: FailureCount) -> None:
    """Add a count to one group, on any database."""
    groups = FailureGroup.objects.using(using)
    new = {name: getattr(each, name) for name in _COLUMNS}
    with transaction.atomic(using=using):
        _, made = groups.get_or_create(fingerprint=new.pop("fingerprint"), defaults=new)
        if not made:
            group = groups.filter(fingerprint=each.fingerprint)
            group.filter(last_time__lte=each.last_time).update(**{name: new[name] for name in _LATEST})
            group.update(count=F("count") + each.count)
