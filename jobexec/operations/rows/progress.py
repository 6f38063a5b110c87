"""The progress that running jobs report, stored beside their rows."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import timedelta
from typing import NamedTuple
from uuid import UUID

from jobexec import clock
from jobexec.models import Job, JobProgress

from ..sql.delete import delete_rows
from ..sql.locks import names_conflict_target

_KEPT = timedelta(days=1)


class Progress(NamedTuple):
    """The progress of an attempt: ``done`` of ``total`` (None: unknown) units of its work."""

    job_id: UUID
    attempt: int
    done: int
    total: int | None


def write_progress(using: str, news: Iterable[Progress]) -> None:
    """Insert or replace the progress of these jobs, in one statement."""
    now = clock.now(using)
    # Always in the same order, so that nodes that write the same rows wait for each other without a deadlock.
    rows = [JobProgress(**each._asdict(), update_time=now) for each in sorted(news)]
    target = ["job_id"] if names_conflict_target(using) else None
    columns = ["attempt", "done", "total", "update_time"]
    table = JobProgress.objects.using(using)
    table.bulk_create(rows, update_conflicts=True, update_fields=columns, unique_fields=target)


def clear_progress(using: str, ids: Collection[UUID]) -> None:
    """Delete the progress of jobs that no longer run."""
    delete_rows(JobProgress.objects.using(using).filter(pk__in=ids))


def clear_old_progress(using: str) -> int:
    """Delete rows left by dead processes: a day old and of unlocked jobs. Returns the number of rows."""
    held = Job.objects.using(using).filter(lock_owner__isnull=False).values("pk")
    old = JobProgress.objects.using(using).filter(update_time__lt=clock.now(using) - _KEPT)
    return delete_rows(old.exclude(pk__in=held))
