"""Make the jobs of dead nodes acquirable again. Only this module clears expired locks and counts lost runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from functools import partial
from typing import Any, TypeAlias
from uuid import UUID

from django.db import transaction
from django.db.models import F, Q

from jobexec import clock
from jobexec.exceptions import WorkerLost
from jobexec.models import AbstractJob, DeadLetterJob, ExecutorNode, Job

from ..history.task_attempts import announce_ended
from ..nodes import cluster_lock
from ..nodes.leases import remove_node
from ..notify.broker import announce_ids
from ..notify.signals import announce, failure_signal
from ..resources.breaker import block_unless_closed
from ..rows.bury_unreadable import UNREADABLE
from ..rows.exclusive import lock_held_siblings, unlock_all, unlock_instances
from ..rows.fencing import locked, unlocked
from ..rows.tallies import hurry_all
from ..sql.locks import atomic, lock_rows
from ..values.acquired_job import ALONE_FROM, AcquiredJob
from ..values.failure import Failure
from ..values.run import Run
from .fail import settle_failures

_PAGE = 200
_OF_INSTANCE = ("exclusive", "tenant_id", "process_instance_id")
_DECIDING = ("lock_owner", *_OF_INSTANCE, "resource", "start_time", "lost_runs")
_LOST = "The executor process died while it ran this job (node {node}, {lost_runs} lost runs)."

#: Called with a job, the failure that cost it an attempt, its run, and the table in which it now is.
Charged: TypeAlias = Callable[[Job, Failure, Run, type[AbstractJob]], object]


def _nobody(*told: object) -> None:
    """The default for ``charged``."""


def recover_node(using: str, node: ExecutorNode, charged: Charged = _nobody) -> int:
    """Release the jobs of a dead node, count its lost runs, and delete its row last. Returns the number of jobs.

    ``charged`` is called, after the commit, for each job that has lost an attempt.

    Several nodes may recover the same one: rows that another node is just releasing are skipped, and the node's row is
    deleted only when none is left, so the next recovery completes one that was killed halfway.
    """
    count = _release_all(using, Q(lock_owner=node.lock_owner), node.name, charged)
    if not Job.objects.using(using).filter(lock_owner=node.lock_owner).exists():
        unlock_all(using, node.lock_owner)
        cluster_lock.release_of(using, node.lock_owner)
        hurry_all(using)
        remove_node(using, node)
    return count


def recover_expired_locks(using: str, charged: Charged = _nobody) -> int:
    """Release expired locks whose owner has no node row: those of execute-now calls that died."""
    owners = ExecutorNode.objects.using(using).values("lock_owner")
    expired = Q(lock_expiration_time__lt=clock.now(using)) & ~Q(lock_owner__in=owners)
    return _release_all(using, expired & Q(lock_owner__isnull=False), "execute now", charged)


def recover_job(using: str, job: Job, node_name: str) -> bool:
    """Release one job whose lock owner is gone, like :func:`recover_node`; return whether it still had this lock."""
    return bool(_release_page(using, Q(pk=job.pk, lock_owner=job.lock_owner), node_name, _nobody))


def release_owned(using: str, owner: str) -> int:
    """Release all jobs that ``owner`` still holds, at no cost; the last step of a node's graceful shutdown."""
    with atomic(using):
        rows = lock_rows(Job.objects.using(using).filter(lock_owner=owner).order_by("pk"))
        resources = dict(rows.values_list("pk", "resource"))
        _unlock(using, resources)
        unlock_all(using, owner)
    cluster_lock.release_of(using, owner)
    return len(resources)


def release_strays(using: str, owner: str, in_hand: Callable[[], Iterable[AcquiredJob]]) -> int:
    """Release, at no cost, jobs that ``owner`` has locked without knowing of them; return their number.

    For an acquisition whose commit succeeded while its confirmation was lost. ``in_hand`` returns the jobs that the
    owner knows of; it is called after reading the table, so jobs that have ended meanwhile are gone or have another
    revision, and are not touched. A job known only with another revision is not known: its retry was acquired while the
    thread of an earlier, timed-out attempt still runs.
    """
    held = dict(Job.objects.using(using).filter(lock_owner=owner).values_list("pk", "revision"))
    strays = {pk for pk, _ in held.items() - {(job.id, job.revision) for job in in_hand()}}
    if not strays:
        return 0
    rows = Job.objects.using(using).filter(pk__in=strays, lock_owner=owner).only("revision", "resource", *_OF_INSTANCE)
    with atomic(using):
        lock_held_siblings(using, owner, {row.serial_key for row in rows} - {""})
        locked = lock_rows(rows.order_by("pk"))
        mine = [row for row in locked if row.revision == held[row.pk]]
        _unlock(using, _resources(mine))
        unlock_instances(using, owner, {row.serial_key for row in mine} - {""})
    return len(mine)


def _release_all(using: str, condition: Q, node_name: str, charged: Charged) -> int:
    count = 0
    while True:
        try:
            released = _release_page(using, condition, node_name, charged)
        except UNREADABLE:
            # Once unlocked, they block no other job, and acquisition will find the unreadable rows.
            released = _release_unread(using, condition)
        if not released:
            return count
        count += released


def _release_unread(using: str, condition: Q) -> int:
    with atomic(using):
        rows = lock_rows(Job.objects.using(using).filter(condition).order_by("pk"))
        found = list(rows.only("lock_owner", *_OF_INSTANCE)[:_PAGE])
        _unlock(using, dict.fromkeys(row.pk for row in found))
        for owner in {row.lock_owner for row in found if row.lock_owner}:
            unlock_instances(using, owner, {row.serial_key for row in found if row.lock_owner == owner} - {""})
    return len(found)


def _release_page(using: str, condition: Q, node_name: str, charged: Charged) -> int:
    with atomic(using):
        # Only the columns needed for the decision: the arguments of innocent jobs need not be readable.
        page = Job.objects.using(using).filter(condition).only(*_DECIDING)
        rows = list(lock_rows(page, skip_locked=True)[:_PAGE])
        instances: dict[str, set[str]] = {}
        innocent = []
        for row in rows:
            if row.start_time is None or row.lost_runs < ALONE_FROM:
                innocent.append(row)
            else:
                _charge(using, Job.objects.using(using).get(pk=row.pk), node_name, charged)
            if row.serial_key:
                instances.setdefault(row.lock_owner or "", set()).add(row.serial_key)
        # Most jobs of a dead node are innocent, and which of them had started is not known: the first loss costs
        # nothing but makes the job a suspect. A suspect without a start marker was only queued. A suspect with one ran,
        # but others ran beside it: next time it runs alone.
        queued = [row for row in innocent if row.lost_runs and row.start_time is None]
        _unlock(using, _resources(queued))
        _unlock(using, _resources(row for row in innocent if row not in queued), lost_runs=F("lost_runs") + 1)
        for owner, names in instances.items():
            unlock_instances(using, owner, names)
    return len(rows)


def _resources(rows: Iterable[Job]) -> dict[UUID, str | None]:
    return {row.pk: row.resource for row in rows}


def _unlock(using: str, resources: Mapping[UUID, str | None], **changes: Any) -> None:
    """Unlock jobs, which are given with their resources: they wait for those again that let none begin."""
    if resources:
        rows = Job.objects.using(using).filter(pk__in=[*resources])
        rows.update(**unlocked(), **changes)
        announce_ids(using, resources)
        block_unless_closed(using, resources)


def _charge(using: str, row: Job, node_name: str, charged: Charged) -> None:
    """Settle a suspect that ran alone and killed its process: that is an attempt and costs a retry."""
    started = row.start_time or clock.now(using)
    lost_runs = row.lost_runs + 1
    message = _LOST.format(node=node_name, lost_runs=lost_runs)
    failure = Failure(message, error=WorkerLost(message))
    run = Run(started, max(0.0, (clock.now(using) - started).total_seconds()), node_name)
    moved = settle_failures(using, [(row, failure, run)]).get(row.pk)
    if moved is not None:
        # settle_failures treats a recorded outcome as proof of innocence; here it is none: the job stays a suspect.
        type(moved)._base_manager.using(using).filter(pk=moved.pk).update(lost_runs=lost_runs)
        moved.lost_runs = lost_runs
        signal, values = failure_signal(moved, failure.error)
        announce(signal, using, type(moved), **values)
        if isinstance(moved, Job | DeadLetterJob):  # cancelled, or out of retries
            announce_ended(using, [moved])
        transaction.on_commit(partial(charged, row, failure, run, type(moved)), using)


def mark_suspect_started(job: AcquiredJob) -> bool:
    """Commit the start marker of a job with lost runs, before it runs alone; False if it is no longer ours."""
    return bool(job.held().update(start_time=clock.now(job.using)))


def lock_for(using: str, row: Job, owner: str, lock_time: timedelta) -> bool:
    """Lock one row for an owner without a node (execute now) until the lock expires. False if it is already locked."""
    until = clock.now(using) + lock_time
    free = Job.objects.using(using).filter(pk=row.pk, revision=row.revision, lock_owner=None)
    return bool(free.update(**locked(owner, until)))
