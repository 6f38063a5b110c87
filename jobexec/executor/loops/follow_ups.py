"""Jobs that handlers enqueue and that stay with their node: decides about them, and brings them to the pool."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import UUID

from django.db.backends.base.base import BaseDatabaseWrapper

from jobexec import clock, signals
from jobexec.conf import EngineSettings
from jobexec.handlers.context import JobContext
from jobexec.models import Job
from jobexec.models.locks import serial_key
from jobexec.operations.acquire.follow_ups import committed
from jobexec.operations.enqueue.follow_ups import Hold
from jobexec.operations.sql.errors import one_line
from jobexec.operations.values.acquired_job import AcquiredJob, in_order
from jobexec.operations.values.followers import Followers
from jobexec.operations.values.tenant_room import TenantRoom

from ...runtime.threads import logger
from ..nodes.node import Node
from ..pool.fair_queue import Batch
from ..pool.pool import Pool
from ..run.outcomes import Outcome
from .acquisition import JobAcquisition

#: Seconds for which no job stays after a suspension in force sent some back.
_SUSPENDED = 1.0


_DECIDING = ("category", "priority", "tenant_id")


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
        work = context.work
        acquirer = self._acquirer(columns)
        if acquirer is None or context.timed_out or not self._stays(work.lock_owner, columns):
            return None
        key = _key(columns)
        if key not in ("", work.serial_key):
            return None  # only acquisition can lock another process instance
        if key:
            room = count if self._pool.none_waits else 0
        else:
            room = self._room(columns["handler_type"], columns.get("atomic", False))
        kept = self._reserve(work, min(count, room))
        if not kept or work.followers is None:
            return None
        return Hold(self, work.followers, _share(acquirer), self.lock(work.lock_owner), kept)

    def lock(self, owner: str) -> dict[str, Any]:
        """The lock of a row, as its columns."""
        return {"lock_owner": owner, "lock_expiration_time": clock.now(self.node.using) + self.node.engine.lock_time}

    def _acquirer(self, columns: Mapping[str, Any]) -> EngineSettings | None:
        """The acquisition that would find such a job first in a table without others."""
        scope, category = self.node.scope, columns.get("category", "default")
        if category not in scope.categories or columns.get("deployment_id", "") not in ("", *scope.deployments):
            return None
        for acquirer in self.node.engine.acquirers:
            if acquirer.serves(category) and acquirer.takes(columns.get("priority", 0)):
                return acquirer if self._acquisitions[acquirer.share].sees_the_end else None
        return None

    def _room(self, handler_type: str, atomic: bool) -> int:
        """How many more jobs of a handler may stay, so that those announced just now find a thread, too."""
        announced = any(each.expects_jobs for each in self._acquisitions.values())
        return self._pool.spare(handler_type, atomic) - len(self.jobs()) - announced

    def _stays(self, owner: str, columns: Mapping[str, Any]) -> bool:
        if self._stopping() or clock.monotonic() < self._not_before or not self.node.owns(owner):
            return False
        concurrency = self.node.settings.tenant_concurrency
        # Acquisition counts the jobs of tenants that have a limit.
        return concurrency is None or TenantRoom(concurrency, {}).limit(columns.get("tenant_id", "")) is None

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

    def expect(self, followers: Followers, jobs: Sequence[AcquiredJob], connection: BaseDatabaseWrapper) -> None:
        with self._lock:
            self._held |= {job.id: job for job in jobs}
            followers.expected |= {job.id: (job, connection) for job in jobs}

    def arrive(self, followers: Followers, jobs: Sequence[AcquiredJob]) -> None:
        with self._lock:  # what is not expected any more was released when the run ended
            mine = [job for job in jobs if followers.expected.pop(job.id, None) is not None]
        if not mine:
            self._give_back(jobs)
            return
        run, back = self._committed(mine)
        self._tell(run)
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
        self.forget([job for job in mine if job.id not in waiting])

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
            text = "Follow-ups on %s could not be read (%s); they are released"
            logger.warning(text, self.node.using, one_line(error))
            return [], list(jobs)
        if any(job.suspend_requested for job in back) or (back and not run):
            self._not_before = clock.monotonic() + _SUSPENDED
        return run, back

    # Called by the loop that promotes blocked jobs.

    def of_permits(self) -> PermitHome | None:
        """A home for jobs that are about to be promoted; None if none can stay."""
        owner = self.node.owner
        if self._stopping() or not self.node.owns(owner):
            return None
        return PermitHome(self, owner)

    def share_of(self, job: AcquiredJob, deployment: str) -> str | None:
        """The acquisition for which a job that is about to be promoted may stay here; None if it may not."""
        columns = {name: getattr(job, name) for name in _DECIDING} | {"deployment_id": deployment}
        acquirer = self._acquirer(columns)
        if acquirer is None or not self._stays(job.lock_owner, columns):
            return None
        return _share(acquirer)

    def hold_promoted(self, job: AcquiredJob) -> None:
        """Note a job as held before it is promoted."""
        with self._lock:
            self._held[job.id] = job

    def take(self, jobs: Sequence[AcquiredJob]) -> None:
        """Bring committed jobs to the pool."""
        if not jobs:
            return
        self._tell(jobs)
        by_share: dict[str, list[Batch]] = {}
        for job in jobs:
            by_share.setdefault(job.share, []).append([job])
        for share, batches in by_share.items():
            refused = batches if self._stopping() else self._pool.offer(batches, share)
            self._give_back([job for batch in refused for job in batch])
        self.forget(jobs)

    def doubt(self, jobs: Sequence[AcquiredJob]) -> None:
        """It is not known whether these are committed: if they are, they are strays."""
        self.forget(jobs)
        for acquisition in self._acquisitions.values():
            acquisition.doubt()

    @property
    def room(self) -> int:
        """How many jobs of any kind could begin soon."""
        return self._pool.most_spare + self._pool.soon - len(self.jobs())

    def room_for(self, job: AcquiredJob) -> int:
        """How many jobs like this one could begin soon."""
        return self._room(job.handler_type, job.atomic) + self._pool.soon

    # Called when a run has ended.

    def end(self, work: AcquiredJob, batch: Batch) -> Batch:
        """Let the follow-ups of a run join its batch, which runs them after it; returns them in order.

        Those of which no commit is known are released: their transaction was rolled back, or an error in another hook
        has kept this node from hearing of them. If a thread that the handler has left behind still holds their
        transaction open, they are released when it commits: on InnoDB, a release would wait for it.
        """
        followers = work.followers
        if followers is None:
            return []
        with self._lock:
            followers.ended = True
            ready, expected = followers.ready, list(followers.expected.values())
            followers.ready, followers.expected = [], {}
        if not (ready or expected):
            return []
        left = [*ready, *(job for job, _ in expected)]
        lost = [job for job, connection in expected if not connection.in_atomic_block]
        if ready and not self._pool.join(batch, ready):
            ready, lost = [], [*ready, *lost]
        self._give_back(lost)
        self.forget(left)
        return sorted(ready, key=in_order)

    def _tell(self, jobs: Sequence[AcquiredJob]) -> None:
        if jobs:
            self.node.meters.followed(len(jobs))
            if signals.job_acquired.has_listeners(Job):
                owner = jobs[0].lock_owner
                signals.job_acquired.send_robust(sender=Job, using=self.node.using, jobs=list(jobs), node=owner)

    def _give_back(self, jobs: Sequence[AcquiredJob]) -> None:
        for job in jobs:
            self._submit(Outcome(job))

    def forget(self, jobs: Sequence[AcquiredJob]) -> None:
        """Forget jobs that are with another node or do not exist."""
        with self._lock:
            for job in jobs:
                self._held.pop(job.id, None)


class PermitHome:
    """This node, for one promotion. What decides about a job is looked up once for all that are alike."""

    def __init__(self, follow_ups: FollowUps, owner: str) -> None:
        self._follow_ups, self._taken = follow_ups, list[AcquiredJob]()
        self.lock, self.wide = follow_ups.lock(owner), follow_ups.node.scope.wide
        self._shares: dict[tuple[Any, ...], str | None] = {}
        #: By handler, how many jobs may be taken in all.
        self._rooms: dict[tuple[str, bool], int] = {}

    def room(self) -> int:
        return self._follow_ups.room

    def takes(self, job: AcquiredJob, deployment: str) -> bool:
        if job.serial_key:
            return False  # only acquisition can lock a process instance
        alike = (job.category, job.priority, job.tenant_id, deployment)
        if alike not in self._shares:
            self._shares[alike] = self._follow_ups.share_of(job, deployment)
        handler = (job.handler_type, job.atomic)
        if handler not in self._rooms:
            self._rooms[handler] = self._follow_ups.room_for(job) + len(self._taken)
        share = self._shares[alike]
        if share is None or self._rooms[handler] <= len(self._taken):
            return False
        job.acquired_by = share
        self._follow_ups.hold_promoted(job)
        self._taken.append(job)
        return True

    def arrive(self, jobs: Sequence[AcquiredJob]) -> None:
        """These are committed; the others that it took have moved elsewhere."""
        self._follow_ups.take(jobs)
        self._follow_ups.forget(self._taken)

    def fail(self) -> None:
        """There was an error, perhaps in the commit."""
        if self._taken:
            self._follow_ups.doubt(self._taken)


def _share(acquirer: EngineSettings) -> str:
    return acquirer.share if acquirer.name else ""


def _key(columns: Mapping[str, Any]) -> str:
    """The serial key of a job with these columns."""
    instance = columns.get("process_instance_id", "")
    return serial_key(columns.get("tenant_id", ""), instance) if instance and columns.get("exclusive", True) else ""
