"""The suspensions in force and the rows that they cover."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connections
from django.db.models import Q, QuerySet

from jobexec import clock
from jobexec.identifiers import as_id
from jobexec.json_values import check_storable, shown
from jobexec.models import AbstractJob, Job, Suspension, SuspensionScope
from jobexec.models.suspension import columns_of, joined, parts_of, value_of

from ..sql.dialect import prepared_cursor
from ..sql.locks import lock_rows

_FEW = 200

#: As SQL, with the parameter ``now``: whether any suspension is in force. Evaluated once in a statement's snapshot.
IN_FORCE = f"""EXISTS (SELECT 1 FROM {Suspension._meta.db_table} WHERE live
AND (suspend_time IS NULL OR suspend_time <= %(now)s) AND (activate_time IS NULL OR activate_time > %(now)s))"""


class Suspensions:
    """The current content of the small Suspension table.

    Every operation that makes a job runnable reads it in its own transaction, so a committed suspension applies to all
    jobs that are acquired, become due, are retried or are requeued afterwards, including jobs created later. Dates take
    effect by the database's time, whether or not a sweep has processed them.
    """

    def __init__(self, suspensions: Iterable[Suspension]) -> None:
        # A suspension covers all jobs of its scope, or those created since a moment.
        self._since = {(row.scope, row.value): row.since for row in suspensions if _possible(row.scope, row.value)}
        self.scopes = sorted({scope for scope, _ in self._since})

    @classmethod
    def of(cls, using: str, jobs: Collection[UUID]) -> Suspensions:
        """Return this engine's suspensions that are in force now and may concern these jobs."""
        if not _any_in_force(using):
            return cls(())
        in_force = Suspension.objects.using(using).filter(_in_force(clock.now(using)))
        found = list(in_force[: _FEW + 1])
        if len(found) > _FEW:  # thousands of single jobs may be suspended: do not load all of them for every page
            found = list(in_force.filter(_concerning(jobs)))
        return cls(found)

    def __bool__(self) -> bool:
        return bool(self._since)

    def cover(self, row: AbstractJob) -> bool:
        """Whether the row may not run, because its scope or the job itself is suspended."""
        if row.suspend_requested:
            return True
        return any(self._covers(scope, row) for scope in self.scopes)

    def _covers(self, scope: str, row: AbstractJob) -> bool:
        entry = (scope, value_of(scope, row))
        if entry not in self._since:
            return False
        since = self._since[entry]
        return since is None or row.create_time >= since

    @classmethod
    def held(cls, using: str, jobs: Collection[UUID]) -> Suspensions:
        """Like :meth:`of`, but lock the suspensions until the transaction ends, so that none can end meanwhile."""
        rows = lock_suspensions(Suspension.objects.using(using).filter(_concerning(jobs)))
        now = clock.now(using)
        return cls(row for row in rows if row.in_force(now))

    def condition(self) -> Q:
        """Return a filter for job tables that matches the rows that a scope may cover; without scopes, none.

        It matches all covered rows and, for a scope that excludes earlier jobs, some others: :meth:`cover` decides.
        There is no condition per suspension because SQLite accepts no more than a thousand.
        """
        condition = Q(pk__in=[])
        for scope in self.scopes:
            moments = {value: since for (name, value), since in self._since.items() if name == scope}
            condition |= _among(scope, [value for value, since in moments.items() if since is None])
            later = {value: since for value, since in moments.items() if since is not None}
            if later:
                condition |= _among(scope, later) & Q(create_time__gte=min(later.values()))
        return condition


def _any_in_force(using: str) -> bool:
    """Whether any suspension is in force. Mostly none is, and building the query for all takes a millisecond."""
    now = connections[using].ops.adapt_datetimefield_value(clock.now(using))
    with prepared_cursor(using) as cursor:
        cursor.execute(f"SELECT {IN_FORCE}", {"now": now})
        return bool(cursor.fetchone()[0])


def _among(scope: str, values: Iterable[str]) -> Q:
    found: dict[str, set[str]] = {column: set() for column in columns_of(scope)}
    for value in values:
        for column, part in parts_of(scope, value).items():
            found[column].add(part)
    return Q(**{f"{column}__in": sorted(parts) for column, parts in found.items()})


def in_force(using: str) -> QuerySet[Suspension]:
    """The suspensions that are in force now."""
    return Suspension.objects.using(using).filter(_in_force(clock.now(using)))


def _in_force(now: datetime) -> Q:
    begun = Q(suspend_time=None) | Q(suspend_time__lte=now)
    not_over = Q(activate_time=None) | Q(activate_time__gt=now)
    return Q(live=True) & begun & not_over


def _concerning(jobs: Collection[UUID]) -> Q:
    return ~Q(scope=SuspensionScope.JOB) | Q(scope=SuspensionScope.JOB, value__in=[str(job) for job in jobs])


def _possible(scope: str, value: str) -> bool:
    """False if no job can match and the query would fail: a broken row must not stop acquisition."""
    if scope != SuspensionScope.JOB:
        return bool(parts_of(scope, value))
    return as_id(value) is not None


def lock_suspensions(queryset: QuerySet[Suspension]) -> list[Suspension]:
    """Read and lock these suspensions until the transaction ends, always in the same order.

    They are locked by primary key, which is looked up before: MariaDB locks the entry of the index that it uses first
    and the row second, so a transaction that locks by another index and one that deletes the row would deadlock.
    """
    found = list(queryset.values_list("pk", flat=True))
    if not found:
        return []
    return list(lock_rows(Suspension.objects.using(queryset.db).filter(pk__in=found).order_by("pk")))


def lock_suspension(using: str, scope: str, value: str) -> Suspension | None:
    """Lock and return the live suspension of this scope; None if there is none."""
    rows = lock_suspensions(Suspension.objects.using(using).filter(scope=scope, value=value, live=True))
    return rows[0] if rows and rows[0].live else None


def covered_rows(using: str, rows: Sequence[AbstractJob]) -> list[AbstractJob]:
    """Return the rows that a suspension covers; the caller is about to move them to the suspended jobs.

    Checks without a lock first, because nearly always no row is covered. Covered rows are checked again under lock:
    otherwise an activation could end the suspension and finish its sweep between our check and our move, and the row
    would stay suspended forever.
    """
    ids = [row.pk for row in rows]
    seen = Suspensions.of(using, ids)
    covered = [row for row in rows if seen.cover(row)]
    if not covered:
        return covered
    held = Suspensions.held(using, ids)
    return [row for row in covered if held.cover(row)]


def suspended_among(using: str, ids: Collection[UUID]) -> frozenset[UUID]:
    """Return those of these executable jobs that a suspension covers now. Locks nothing."""
    seen = Suspensions.of(using, ids)
    rows = Job.objects.using(using).filter(seen.condition(), pk__in=ids) if seen else Job.objects.none()
    columns = {column for scope in seen.scopes for column in columns_of(scope)}
    return frozenset(row.pk for row in rows.only("suspend_requested", "create_time", *columns) if seen.cover(row))


def scope_of(**scope: Any) -> tuple[str, str]:
    """Return the scope named by keyword as scope and value of a suspension. Raises ValueError unless it is exactly one.

    ``process_definition_key`` and ``tenant_id`` together are one scope; the tenant '' means the definition's jobs
    without a tenant.
    """
    allowed = [
        name
        for name in SuspensionScope.values
        if name not in (SuspensionScope.JOB, SuspensionScope.TENANT_PROCESS_DEFINITION)
    ]
    known = {name: value for name, value in scope.items() if value is not None}
    if known.keys() == {SuspensionScope.PROCESS_DEFINITION.value, SuspensionScope.TENANT.value}:
        tenant = known.pop(SuspensionScope.TENANT.value)
        if not isinstance(tenant, str):
            raise ValueError(f"tenant_id: expected a string, '' for jobs without a tenant, got {tenant!r}.")
        _check(SuspensionScope.TENANT.value, tenant)
        return SuspensionScope.TENANT_PROCESS_DEFINITION.value, joined(tenant, scope_of(**known)[1])
    if len(known) != 1 or not known.keys() <= set(allowed):
        either = f"{', '.join(allowed)}, or process_definition_key and tenant_id"
        raise ValueError(f"Expected exactly one of {either}, got {sorted(known) or 'none'}.")
    column, value = next(iter(known.items()))
    if not isinstance(value, str) or not value:
        raise ValueError(f"{column}: expected a string that is not empty, got {value!r}.")
    _check(column, value)
    return column, value


def _check(column: str, value: str) -> None:
    """Raise ValueError for a value that no job can have."""
    field: Any = Job._meta.get_field(column)
    longest = field.max_length
    if len(value) > longest:
        raise ValueError(f"{column}: expected a string of at most {longest} characters, got {shown(value)}.")
    check_storable(column, value)
