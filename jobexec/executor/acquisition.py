"""Picks due jobs and hands them to the pool."""

from __future__ import annotations

from collections.abc import Callable, Collection
from uuid import UUID

from jobexec import signals
from jobexec.models import Job
from jobexec.operations.acquire import acquire_jobs, release_jobs
from jobexec.operations.errors import is_conflict
from jobexec.operations.recover import release_strays
from jobexec.operations.work import Acquisition, batches

from .node import Node
from .pool import Pool
from .service import Loop, logger
from .strategy import Waiting


class JobAcquisition(Loop):
    """Acquires as many jobs of one engine as the pool grants, and no more."""

    keeps_connection = True  # connecting would come between a notification and the job

    def __init__(
        self, node: Node, pool: Pool, listening: Callable[[], bool], in_hand: Callable[[], Collection[UUID]]
    ) -> None:
        super().__init__(f"jobexec-acquisition-{node.using}")
        self.node, self.pool, self._listening, self._in_hand = node, pool, listening, in_hand
        self._in_doubt = False
        engine = self._engine = node.engine
        self.waiting = Waiting(
            wait_time=engine.wait_time.total_seconds(),
            factor=engine.wait_increase_factor,
            max_wait=engine.max_wait.total_seconds(),
            backoff_time=engine.backoff_time.total_seconds(),
            max_backoff=engine.max_backoff.total_seconds(),
        )

    def wake(self) -> None:
        self.waiting.reset()
        super().wake()

    def run_once(self) -> float:
        if not self.node.good:
            return 0.2  # a heartbeat will tell whether this node goes on
        self._release_strays()
        reserved = self.pool.reserve(self._engine.max_jobs_per_acquisition, self.wake)
        if not reserved:
            return self._engine.max_wait.total_seconds()  # the pool wakes us when there is room
        acquisition = Acquisition()
        try:
            acquisition = self._acquire(reserved)
        finally:
            # What was locked is always handed on: a loop that is being stopped gives it back through the pool.
            self.pool.submit(batches(acquisition.jobs), reserved)
        if acquisition.jobs and signals.job_acquired.has_listeners(Job):
            signals.job_acquired.send_robust(
                sender=Job, using=self.node.using, jobs=acquisition.jobs, node=self.node.owner
            )
        return self.waiting.after(
            found=acquisition.found,
            requested=reserved,
            lock_failures=acquisition.lock_failures,
            max_wait=self._engine.max_wait_when_listening.total_seconds() if self._listening() else None,
        )

    def _acquire(self, limit: int) -> Acquisition:
        engine, owner = self._engine, self.node.owner
        self._in_doubt = True
        try:
            acquisition = acquire_jobs(
                engine.alias,
                owner,
                limit,
                self.node.scope,
                lock_time=engine.lock_time,
                strategy=engine.acquisition,
            )
        except Exception as error:
            if not is_conflict(error):
                raise
            self._in_doubt = False
            return Acquisition(lock_failures=1)
        if acquisition.jobs and not self.node.owns(owner):
            release_jobs(engine.alias, acquisition.jobs)
            acquisition = Acquisition()
        self._in_doubt = False
        return acquisition

    def _release_strays(self) -> None:
        """After an error: the commit may have gone through, and then rows are locked that nobody here knows of."""
        if not self._in_doubt:
            return
        using = self.node.using
        count = release_strays(using, self.node.owner, self._in_hand)
        self._in_doubt = False
        if count:
            logger.warning("%d jobs on %s were locked when the connection broke; they are released", count, using)
