"""Follow-ups after their commit: jobs that were inserted locked, instead of being acquired."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any
from uuid import UUID

from django.db import connections
from django.db.models import Exists, QuerySet

from jobexec import clock
from jobexec.models import Job

from ..rows.suspension_cover import in_force
from ..sql.dialect import dialect, prepared_cursor
from ..sql.locks import returns_rows
from ..values.acquired_job import AcquiredJob, ServedJobs, columns, from_row, in_order
from .candidates import UNINDEXED, exclusive_of, in_scope
from .statement import Locked, read, select


def committed(
    using: str, owner: str, expected: Collection[AcquiredJob], scopes: Mapping[str, ServedJobs]
) -> tuple[list[AcquiredJob], list[AcquiredJob]]:
    """Read the rows of jobs that a transaction inserted for ``owner``: those that may run, and those to be released.

    Jobs in neither list are gone: their savepoint was rolled back, or the transaction deleted them again. To be
    released are those that acquisition must look at: any that are suspended, all while a suspension is in force, and
    exclusive ones behind a sibling that waits in the table. ``scopes`` are those of the shares that take the jobs.
    """
    known = {job.id: job for job in expected}
    wide = any(scope.wide for scope in scopes.values())
    look = _read if returns_rows(using) else _read_portable
    rows, suspensions = look(using, owner, list(known), wide)
    found = [job for job in sorted(rows, key=in_order) if job.revision == known[job.id].revision]
    for job in found:
        seen = known[job.id]
        job.acquired_by, job.followers, job.ahead = seen.acquired_by, seen.followers, seen.ahead
    run = [job for job in found if not (suspensions or job.suspend_requested)]
    behind = _behind_others(using, run, scopes)
    run = [job for job in run if job.id not in behind]
    going = {job.id for job in run}
    return run, [job for job in found if job.id not in going]


def _read(using: str, owner: str, ids: Sequence[UUID], wide: bool) -> Locked:
    connection, spelled = connections[using], dialect(using)
    now = connection.ops.adapt_datetimefield_value(clock.now(using))
    with spelled.cursor(connection, prepared=True) as cursor:
        cursor.execute(select(spelled, wide), {"owner": owner, "now": now, "ids": spelled.id_list(ids)})
        return read(using, owner, cursor.fetchall())


def _read_portable(using: str, owner: str, ids: Sequence[UUID], wide: bool) -> Locked:
    rows = Job.objects.using(using).filter(pk__in=ids, lock_owner=owner)
    found = list(rows.annotate(suspensions=Exists(in_force(using))).values_list(*columns(wide), "suspensions"))
    return Locked([from_row(row[:-1], using, owner) for row in found], any(row[-1] for row in found))


def _behind_others(using: str, jobs: Sequence[AcquiredJob], scopes: Mapping[str, ServedJobs]) -> set[UUID]:
    """Those exclusive jobs that would overtake a sibling: one of the same scope that waits, unlocked."""
    behind: set[UUID] = set()
    for key in {job.serial_key for job in jobs} - {""}:
        siblings = [job for job in jobs if job.serial_key == key]
        if not _any_waits(using, siblings[0].process_instance_id):
            continue
        first = _first_waiting(using, key, scopes[siblings[0].share])
        if first is not None:
            behind |= {job.id for job in siblings if in_order(job) > first}
    return behind


def _any_waits(using: str, instance: str) -> bool:
    """Whether any job of the process instance is unlocked. Mostly none is, and the ORM takes milliseconds to build the
    query that says which."""
    with prepared_cursor(using) as cursor:
        cursor.execute(_WAITING, [instance])
        return cursor.fetchone() is not None


# The condition of the partial index is repeated: a plan that is kept knows no value, from which it would follow.
_WAITING = f"""
    SELECT 1 FROM {Job._meta.db_table}
    WHERE process_instance_id = %s AND process_instance_id <> '' AND lock_owner IS NULL LIMIT 1"""


def _first_waiting(using: str, key: str, scope: ServedJobs) -> tuple[int, int] | None:
    free: QuerySet[Job, Any] = in_scope(Job.objects.using(using).filter(lock_owner=None), scope)
    row = exclusive_of(free, scope, [key]).order_by(*UNINDEXED).values_list("rank", "id").first()
    return None if row is None else (row[0], row[1].int)
