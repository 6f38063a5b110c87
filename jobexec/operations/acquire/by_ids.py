"""Acquisition of given jobs, such as those in a broker message."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from jobexec import clock

from ..values.acquired_job import AcquiredJob, Acquisition, ServedJobs, in_order
from .acquire import acquire_jobs, locks_plain_first
from .candidates import named
from .statement_by_ids import lock_plain_ids


@dataclass(frozen=True, slots=True)
class Named:
    """The acquired jobs, and those of the given jobs that are ``left``, which another call could still acquire.

    For the message, all other jobs are done: they are now locked by us or another node, gone or moved, not in this
    scope, or waiting for their process instance. A change that makes such a job acquirable announces it again.
    """

    acquisition: Acquisition
    left: frozenset[UUID] = frozenset()


def acquire_ids(
    using: str,
    owner: str,
    ids: Collection[UUID],
    limit: int,
    scope: ServedJobs,
    *,
    lock_time: timedelta,
    strategy: str = "auto",
    force_after: timedelta = timedelta(minutes=1),
) -> Named:
    """Lock up to ``limit`` of these jobs, and exclusive siblings, for ``owner``, in rank order.

    In all other respects this equals :func:`~jobexec.operations.acquire_jobs`, with the same strategies: scope,
    suspensions, one node per process instance. A job that is already locked, even by ``owner``, is not touched, so a
    message that is delivered twice has no effect.
    """
    wanted = list(dict.fromkeys(ids))
    if limit < 1 or not wanted:
        return Named(Acquisition(), frozenset(wanted))
    plain = _plain(using, owner, wanted[:limit], scope, lock_time, strategy)
    result, free = Acquisition(), wanted
    if plain is not None:
        result = Acquisition(plain, found=len(plain))
        # Without a lock and outside a transaction: mostly nothing is left, and no further statement is needed.
        free = _still_free(using, scope, _others(wanted, plain))
    if free and len(result.jobs) < limit:
        others = acquire_jobs(
            using,
            owner,
            limit - len(result.jobs),
            scope,
            lock_time=lock_time,
            strategy=strategy,
            force_after=force_after,
            ids=free,
        )
        free = _still_free(using, scope, _others(free, others.jobs))
        result = _together(result, others)
    return Named(result, frozenset(free))


def _plain(
    using: str, owner: str, ids: list[UUID], scope: ServedJobs, lock_time: timedelta, strategy: str
) -> list[AcquiredJob] | None:
    """Lock those that one statement can lock; None if this database or these settings do not allow it."""
    if not locks_plain_first(using, strategy) or scope.tenants is not None:
        return None
    return lock_plain_ids(using, owner, ids, scope, clock.now(using) + lock_time)


def _others(ids: list[UUID], jobs: list[AcquiredJob]) -> list[UUID]:
    acquired = {job.id for job in jobs}
    return [id for id in ids if id not in acquired]


def _together(first: Acquisition, second: Acquisition) -> Acquisition:
    second.jobs = sorted([*first.jobs, *second.jobs], key=in_order)
    second.found += first.found
    return second


def _still_free(using: str, scope: ServedJobs, ids: Collection[UUID]) -> list[UUID]:
    return list(named(using, scope, ids).values_list("pk", flat=True)) if ids else []
