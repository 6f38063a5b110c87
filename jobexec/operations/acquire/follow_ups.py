"""Follow-ups after their commit: jobs that were inserted locked, instead of being acquired."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any
from uuid import UUID

from django.db.models import Exists, QuerySet

from jobexec.models import Job

from ..rows.suspension_cover import in_force
from ..values.acquired_job import AcquiredJob, ServedJobs, columns, from_row, in_order
from .candidates import exclusive_of, in_scope


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
    rows = Job.objects.using(using).filter(pk__in=known, lock_owner=owner)
    rows = rows.annotate(suspensions=Exists(in_force(using)))
    found: list[tuple[AcquiredJob, bool]] = []
    for *row, suspensions in rows.values_list(*columns(wide), "suspensions"):
        job = from_row(tuple(row), using, owner)
        before = known[job.id]
        if job.revision == before.revision:
            job.acquired_by, job.followers = before.acquired_by, before.followers
            found.append((job, suspensions or job.suspend_requested))
    found.sort(key=lambda each: in_order(each[0]))
    run = [job for job, suspended in found if not suspended]
    behind = _behind_others(using, run, scopes)
    run = [job for job in run if job.id not in behind]
    going = {job.id for job in run}
    return run, [job for job, _ in found if job.id not in going]


def _behind_others(using: str, jobs: Sequence[AcquiredJob], scopes: Mapping[str, ServedJobs]) -> set[UUID]:
    """Those exclusive jobs that would overtake a sibling: one of the same scope that waits, unlocked."""
    behind: set[UUID] = set()
    for key in {job.serial_key for job in jobs} - {""}:
        siblings = [job for job in jobs if job.serial_key == key]
        first = _first_waiting(using, key, scopes[siblings[0].share])
        if first is not None:
            behind |= {job.id for job in siblings if in_order(job) > first}
    return behind


def _first_waiting(using: str, key: str, scope: ServedJobs) -> tuple[int, int] | None:
    free: QuerySet[Job, Any] = in_scope(Job.objects.using(using).filter(lock_owner=None), scope)
    row = exclusive_of(free, scope, [key]).order_by("rank", "id").values_list("rank", "id").first()
    return None if row is None else (row[0], row[1].int)
