"""Release acquired jobs that have not started."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from uuid import UUID

from jobexec.models import Job

from ..notify.broker import announce_ids
from ..notify.wake import wake_on_commit
from ..resources.breaker import block_unless_closed
from ..rows.exclusive import lock_held_siblings, unlock_instances
from ..rows.fencing import lock_unchanged, unlocked
from ..sql.locks import atomic
from ..values.acquired_job import AcquiredJob


def release_jobs(using: str, jobs: Sequence[AcquiredJob]) -> int:
    """Unlock jobs that have not started, at no cost. Returns the number of those that were still ours."""
    count = 0
    with atomic(using):
        for owner, group in by_owner(jobs).items():
            instances = {job.serial_key for job in group} - {""}
            lock_held_siblings(using, owner, instances)
            count += _unlock(using, owner, group)
            unlock_instances(using, owner, instances)
        block_unless_closed(using, {job.id: job.resource for job in jobs})
        if count:
            announce_ids(using, (job.id for job in jobs))
            wake_on_commit(using)  # other nodes may be idle; the one that releases is stopping or full
    return count


def by_owner(jobs: Iterable[AcquiredJob]) -> dict[str, list[AcquiredJob]]:
    """Group jobs by their lock owner: nearly always one group, more after a node lost its lease."""
    groups: dict[str, list[AcquiredJob]] = {}
    for job in jobs:
        if (group := groups.get(job.lock_owner)) is None:
            group = groups[job.lock_owner] = []
        group.append(job)
    return groups


def _unlock(using: str, owner: str, jobs: Iterable[AcquiredJob]) -> int:
    revisions = {job.id: job.revision for job in jobs}
    if not revisions:
        return 0
    rows = Job.objects.using(using).filter(lock_owner=owner).order_by("pk")
    return give_back(using, lock_unchanged(rows, revisions))


def give_back(using: str, ids: Collection[UUID]) -> int:
    """Unlock rows that this transaction has locked."""
    return Job.objects.using(using).filter(pk__in=ids).update(**unlocked()) if ids else 0
