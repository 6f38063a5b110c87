"""Locks of process instances by external jobs: each job is an owner of its own."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from jobexec.models import AbstractJob, ExternalWorkerJob

from .exclusive import lock_instances

PREFIX = "external:"


def owner_of(id: UUID) -> str:
    """Return the lock owner that represents the current worker of this job.

    It is not the worker's name: a worker may hold several jobs, and after its deadline another worker continues with
    the same lock.
    """
    return f"{PREFIX}{id}"


def needs_lock(row: AbstractJob) -> bool:
    """Whether the job locks its process instance while a worker holds it."""
    return bool(row.serial_key)


def take(using: str, rows: Sequence[ExternalWorkerJob]) -> set[UUID]:
    """Lock the process instances of rows that the caller has locked; return the ids of jobs that may be handed out.

    A job that was fetched before and has not ended still holds its instance. Instances are locked in sorted order to
    avoid deadlocks.
    """
    free = {row.pk for row in rows if not needs_lock(row) or row.lock_owner is not None}
    waiting = [row for row in rows if row.pk not in free]
    for row in sorted(waiting, key=lambda row: row.serial_key):
        if lock_instances(using, owner_of(row.pk), [row.serial_key]):
            free.add(row.pk)
    return free
