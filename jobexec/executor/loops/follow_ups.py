"""Jobs that handlers enqueue and that stay with their node: decides about them, and brings them to the pool."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import UUID

from jobexec import clock, signals
from jobexec.conf import EngineSettings
from jobexec.handlers.context import JobContext
from jobexec.models import Job
from jobexec.models.exclusive_lock import serial_key
from jobexec.operations.acquire.follow_ups import committed
from jobexec.operations.enqueue.follow_ups import Hold
from jobexec.operations.values.acquired_job import AcquiredJob, in_order
from jobexec.operations.values.followers import Followers

from ...runtime.threads import logger
from ..nodes.node import Node
from ..pool.fair_queue import Batch
from ..pool.pool import Pool
from ..run.outcomes import Outcome
from .acquisition import JobAcquisition

#: Seconds for which no job stays after a suspension in force sent some back.
_SUSPENDED = 1.0


class FollowUps:
    """The follow-ups of one engine.

    From before its row is inserted until the pool or the settlement has it, a follow-up is held here, so that it does
    not look like a stray. ``submit`` takes the outcomes that release jobs, ``stopping`` says whether no job begins any
    more.
    """

    def __init__(
        self,
        node: Node,
        pool: Pool,
        acquisitions: Mapping[str, JobAcquisition],
        submit: Callable[[Outcome], None],
        stopping: Callable[[], bool],
    ) -> None:
        self.node, self._pool, self._acquisitions = node, pool, acquisitions
        self._submit, self._stopping = submit, stopping
        self._lock = threading.Lock()
        self._held: dict[UUID, AcquiredJob] = {}
        self._not_before = 0.0

    def jobs(self) -> list[AcquiredJob]:
        """The follow-ups that are not in the pool yet."""
        with self._lock:
            return list(self._held.values())

    # Called in the threads of handlers.

    def hold(self, context: JobContext, columns: Mapping[str, Any], count: int) -> Hold | None:
        """Decide how many of ``count`` jobs with these columns, which a handler enqueues, stay here; None for none."""
        acquirer = self._acquirer(columns)
        if acquirer is None or context.timed_out or not self._stays(context.work, columns):
            return None
        if _key(columns):
            room = count if self._pool.nobody_waits else 0
        else:
            room = self._pool.spare(columns["handler_type"], columns.get("atomic", False)) - len(self.jobs())
        kept = self._reserve(context.work, min(count, room))
        if not kept:
            return None
        until = clock.now(self.node.using) + self.node.engine.lock_time
        lock = {"lock_owner": context.work.lock_owner, "lock_expiration_time": until}
        share = acquirer.share if acquirer.name else ""
        assert context.work.followers is not None
        return Hold(self, context.work.followers, share, lock, kept)

    def _acquirer(self, columns: Mapping[str, Any]) -> EngineSettings | None:
        """The acquisition that would find such a job first in a table without others."""
        scope, category = self.node.scope, columns.get("category", "default")
        if category not in scope.categories or columns.get("deployment_id", "") not in ("", *scope.deployments):
            return None
        for acquirer in self.node.engine.acquirers:
            if acquirer.serves(category) and acquirer.takes(columns.get("priority", 0)):
                return acquirer if self._acquisitions[acquirer.share].sees_the_end else None
        return None

    def _stays(self, work: AcquiredJob, columns: Mapping[str, Any]) -> bool:
        if self._stopping() or clock.monotonic() < self._not_before or not self.node.owns(work.lock_owner):
            return False
        if self.node.settings.tenant_concurrency and columns.get("tenant_id"):
            return False  # acquisition counts them
        # Of another process instance, only acquisition can lock it.
        return _key(columns) in ("", work.serial_key)

    def _reserve(self, work: AcquiredJob, wanted: int) -> int:
        if wanted < 1:
            return 0
        with self._lock:
            if work.followers is None:
                work.followers = Followers()
            followers = work.followers
            # After the line before: of the two threads, this one and the one that ends the run, one sees the other.
            if work.ended or followers.ended:
                return 0
            kept = min(wanted, followers.streak.left)
            followers.streak.left -= kept
        return kept

    def expect(self, followers: Followers, jobs: Sequence[AcquiredJob]) -> None:
        found = {job.id: job for job in jobs}
        with self._lock:
            self._held |= found
            followers.expected |= found

    def arrive(self, followers: Followers, jobs: Sequence[AcquiredJob]) -> None:
        with self._lock:  # what is not expected any more was released when the run ended
            mine = [job for job in jobs if followers.expected.pop(job.id, None) is not None]
        if not mine:
            self._give_back(jobs)
            return
        run, back = self._committed(mine)
        if run:
            self.node.meters.followed(len(run))
            if signals.job_acquired.has_listeners(Job):
                signals.job_acquired.send_robust(sender=Job, using=self.node.using, jobs=run, node=run[0].lock_owner)
        for job in run:
            if not job.serial_key and self._pool.offer([[job]], job.share):
                back.append(job)
        siblings = [job for job in run if job.serial_key]
        with self._lock:
            if followers.ended:
                back += siblings
            else:
                followers.ready += siblings
                self._held |= {job.id: job for job in siblings}
        self._give_back(back)
        waiting = {job.id for job in siblings}.difference(job.id for job in back)
        self._forget([job for job in mine if job.id not in waiting])

    def _committed(self, jobs: Sequence[AcquiredJob]) -> tuple[list[AcquiredJob], list[AcquiredJob]]:
        """The jobs that may run, and those to be released."""
        owner = jobs[0].lock_owner
        if self._stopping() or not self.node.owns(owner):
            return [], list(jobs)
        shares = {job.share for job in jobs}
        scopes = {each.share: self.node.scope_of(each) for each in self.node.engine.acquirers if each.share in shares}
        try:
            run, back = committed(self.node.using, owner, jobs, scopes)
        except Exception as error:
            logger.warning("Follow-ups on %s could not be read (%s); they are released", self.node.using, error)
            return [], list(jobs)
        if any(job.suspend_requested for job in back) or (back and not run):
            self._not_before = clock.monotonic() + _SUSPENDED
        return run, back

    # Called when a run has ended.

    def end(self, work: AcquiredJob, batch: Batch) -> Batch:
        """Let the follow-ups of a run join its batch, which runs them after it; returns them in order.

        Those of which no commit is known are released: their transaction was rolled back, or an error in another hook
        has kept this node from hearing of them.
        """
        followers = work.followers
        if followers is None:
            return []
        with self._lock:
            followers.ended = True
            ready, lost = followers.ready, list(followers.expected.values())
            followers.ready, followers.expected = [], {}
        left = [*ready, *lost]
        if not left:
            return []
        if ready and not self._pool.join(batch, ready):
            ready, lost = [], left
        self._give_back(lost)
        self._forget(left)
        return sorted(ready, key=in_order)

    def _give_back(self, jobs: Sequence[AcquiredJob]) -> None:
        for job in jobs:
            self._submit(Outcome(job))

    def _forget(self, jobs: Sequence[AcquiredJob]) -> None:
        """They are in other hands now, or nowhere."""
        with self._lock:
            for job in jobs:
                self._held.pop(job.id, None)


def _key(columns: Mapping[str, Any]) -> str:
    """The serial key of a job with these columns."""
    instance = columns.get("process_instance_id", "")
    return serial_key(columns.get("tenant_id", ""), instance) if instance and columns.get("exclusive", True) else ""
