"""External jobs and the locks of process instances: each job is an owner of its own."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from jobexec.models import AbstractJob, ExternalWorkerJob

from .exclusive import lock_instances

PREFIX = "external:"


def owner_of(id: UUID) -> str:
    """The lock owner that stands for whoever works on this job.

    Not the worker: it may hold several jobs, and when its deadline is over another worker goes on with the same lock.
    """
    return f"{PREFIX}{id}"


def needs_lock(row: AbstractJob) -> bool:
    """Whether nobody else may work on its process instance while somebody works on it."""
    return bool(row.serial_key)


def take(using: str, rows: Sequence[ExternalWorkerJob]) -> set[UUID]:
    """Lock the process instances of rows that the caller has locked; returns the ids of those that may be worked on.

    One that was fetched before and has not ended holds its instance still. In the order of the instances, so that
    nobody waits in a circle.
    """
    free = {row.pk for row in rows if not needs_lock(row) or row.lock_owner is not None}
    waiting = [row for row in rows if row.pk not in free]
    for row in sorted(waiting, key=lambda row: row.serial_key):
        if lock_instances(using, owner_of(row.pk), [row.serial_key]):
            free.add(row.pk)
    return free
