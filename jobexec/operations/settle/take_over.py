"""Take over a job from another process, which has locked it for this purpose."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol
from uuid import UUID

from jobexec.models import ExclusiveLock, Job

from ..rows.fencing import locked
from ..sql.locks import atomic
from ..values.acquired_job import AcquiredJob, columns, from_row


class _Held(Protocol):
    @property
    def using(self) -> str: ...
    @property
    def id(self) -> UUID: ...
    @property
    def revision(self) -> int: ...
    @property
    def owner(self) -> str: ...


def is_held(work: AcquiredJob) -> bool:
    """Whether the job has been neither taken over nor released since it was acquired."""
    return work.held().exists()


def take_over(held: _Held, owner: str, until: datetime, wide: bool = False) -> AcquiredJob | None:
    """Transfer the job's lock to ``owner``; None if the job has been released, changed or taken over meanwhile.

    The lock of its process instance is transferred too; the old owner must hold no other job of that instance. The job
    row is locked before the lock row, as everywhere.
    """
    using, jobs = held.using, Job.objects.using(held.using)
    with atomic(using):
        ours = jobs.filter(pk=held.id, lock_owner=held.owner, revision=held.revision)
        if not ours.update(**locked(owner, until)):
            return None
        work = from_row(jobs.values_list(*columns(wide=wide)).get(pk=held.id), using, owner)
        if work.serial_key:
            locks = ExclusiveLock.objects.using(using)
            locks.filter(process_instance_id=work.serial_key, lock_owner=held.owner).update(lock_owner=owner)
        return work
