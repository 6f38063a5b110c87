"""Acquires due jobs and submits them to the pool."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from jobexec import clock, signals
from jobexec.conf import EngineSettings
from jobexec.models import Job
from jobexec.operations.acquire.acquire import acquire_jobs, locks_plain_first
from jobexec.operations.acquire.cursor import AcquisitionCursor
from jobexec.operations.settle.recover import release_strays
from jobexec.operations.settle.release import release_jobs
from jobexec.operations.sql.dialect import keep_plans
from jobexec.operations.sql.errors import is_conflict
from jobexec.operations.values.acquired_job import AcquiredJob, Acquisition, ServedJobs, batches
from jobexec.operations.values.category_turns import Turns

from ...runtime.threads import Loop, logger
from ...runtime.wake_up import Source, WakeUpEvent
from ..nodes.node import Node
from ..pool.pool import Pool
from ..waiting import Round, Waiting, strategy_of
from .tenants import Tenants

_LOOK_WHILE_PAUSED = 1.0  # seconds; without a query


class JobAcquisition(Loop):
    """Acquires as many jobs of one engine as the pool has room for, and no more.

    ``settings`` are those of the engine, or of one of its named acquisitions.
    """

    keeps_connection = True  # connecting would come between a notification and the job

    def __init__(
        self,
        node: Node,
        pool: Pool,
        listening: Callable[[], bool],
        in_hand: Callable[[], Iterable[AcquiredJob]],
        source: Source | None = None,
        settings: EngineSettings | None = None,
    ) -> None:
        self._engine = engine = settings or node.engine
        super().__init__(f"jobexec-acquisition-{engine.share}")
        self._woken = WakeUpEvent(source)
        self.node, self.pool, self._listening, self._in_hand = node, pool, listening, in_hand
        self._in_doubt = False
        #: Like ``_in_doubt``, but set by other threads.
        self._doubted = False
        #: Whether the last look found fewer jobs than it asked for.
        self.sees_the_end = False
        self._served = ""
        self._poll_rate = engine.global_lock_poll_rate.total_seconds()
        self._cursor, self._turns = AcquisitionCursor(), Turns(node.settings.category_weights)
        #: Limits the jobs of each tenant, for all acquisitions of the engine.
        self.tenants: Tenants | None = None
        self.waiting = Waiting(strategy_of(engine))
        #: Whether the outcomes of earlier jobs are written fast enough; if not, its argument is called later.
        self.may_acquire: Callable[[Callable[[], object]], bool] = lambda on_room: True
        #: Removes batches that run elsewhere from a page; returns the others, and the jobs to be released.
        self.sift: Callable[[list[list[AcquiredJob]]], tuple[list[list[AcquiredJob]], list[AcquiredJob]]] | None = None

    def start(self) -> None:
        # Started again with its old lease: jobs that could not be released when it stopped are still locked.
        self._in_doubt = self._in_doubt or self._served == self.node.owner
        self._served = self.node.owner
        self._cursor = AcquisitionCursor()
        super().start()

    def wake(self) -> None:
        self.waiting.wake()
        super().wake()

    def doubt(self) -> None:
        """A commit that may have locked jobs for this node had an error: look for jobs that no thread knows of."""
        self._doubted = True
        self.look()

    @property
    def expects_jobs(self) -> bool:
        """Whether it is looking, or about to: jobs may have been announced."""
        return self._woken.is_set() or self.round_began is not None

    def look(self) -> None:
        """Poll the table: there may be jobs without a notification."""
        self.wake()

    def _round(self) -> float:
        keep_plans(self._engine.alias)
        return super()._round()

    def run_once(self) -> float:
        if not self.node.good:
            return 0.2  # a heartbeat will decide whether this node goes on
        with self.node.acquiring:
            self._release_strays()
            if self.node.paused:
                return _LOOK_WHILE_PAUSED
            began, share = clock.monotonic(), self._engine.share
            reserved = self.pool.reserve(self._page(), self.wake, share) if self.may_acquire(self.wake) else 0
            if not reserved:
                self.sees_the_end = False
                return self._after(Acquisition(), Round(requested=0), began)  # the pool or the settlement wakes us up
            acquisition, made = Acquisition(), []
            try:
                acquisition = self._acquire(reserved)
                others = acquisition.lock_failures or acquisition.lock_taken
                # Now: a job of this page may begin, and enqueue another, before this round has ended.
                self.sees_the_end = acquisition.found < reserved and not others
                self.node.meters.acquired(acquisition)
                made = batches(self._mine(acquisition.jobs))
                if self.sift is not None:
                    made, behind = self.sift(made)
                    self._give_back(behind)
                if acquisition.jobs and signals.job_acquired.has_listeners(Job):  # while none of them can have started
                    signals.job_acquired.send_robust(
                        sender=Job, using=self.node.using, jobs=acquisition.jobs, node=self.node.owner
                    )
            finally:
                # Locked jobs are always submitted: a loop that is being stopped releases them through the pool.
                self.pool.submit(made, reserved, share)
        failures = acquisition.lock_failures
        return self._after(acquisition, Round(reserved, acquisition.found, len(made), failures), began)

    def _mine(self, jobs: list[AcquiredJob]) -> list[AcquiredJob]:
        if self._engine.name:
            for job in jobs:
                job.acquired_by = self._engine.share
        return jobs

    def _give_back(self, jobs: list[AcquiredJob]) -> None:
        if jobs:
            before = self._in_doubt
            self._in_doubt = True  # if the release fails, no thread has them in hand, and they are found as strays
            release_jobs(self._engine.alias, jobs)
            self._in_doubt = before

    def _page(self) -> int:
        """How many jobs to ask for."""
        return self.waiting.page(self._engine.max_jobs_per_acquisition)

    def _after(self, acquisition: Acquisition, round: Round, began: float) -> float:
        pool = self.pool.load()
        load = pool["busy_threads"] / self.pool.threads
        elapsed = clock.monotonic() - began
        wait = self.waiting.after(replace(round, listening=self._listening(), elapsed=elapsed, load=load))
        text = "%s: asked for %d jobs, %d found, %d acquired, %d lost to other nodes; %d threads busy, %d jobs queued"
        numbers = round.requested, round.found, len(acquisition.jobs), round.lock_failures
        logger.debug(text, self.name, *numbers, pool["busy_threads"], pool["queued_jobs"])
        unseen = self._cursor.unseen() if round.requested and not round.lock_failures else None
        if unseen is not None:
            wait = min(wait, unseen)
        if acquisition.lock_taken:
            return self._poll_rate
        # A node that held the global lock stays away from it for a while, so that others get it.
        return max(wait, self._poll_rate) if self._engine.acquisition == "global_lock" else wait

    def _acquire(self, limit: int) -> Acquisition:
        engine, owner = self._engine, self.node.owner
        self._in_doubt = True
        scope, tenants = self.node.scope_of(engine, self._turns), self.tenants
        room = tenants.room() if tenants else None
        try:
            with self.node.writing:
                acquisition = self._lock(limit, scope if room is None else replace(scope, tenants=room))
        except Exception as error:
            if not is_conflict(error):
                raise
            self._in_doubt = locks_plain_first(engine.alias, engine.acquisition)
            return Acquisition(lock_failures=1)
        if acquisition.jobs and not self.node.owns(owner):
            release_jobs(engine.alias, acquisition.jobs)
            acquisition = Acquisition(in_doubt=acquisition.in_doubt)
        self._in_doubt = acquisition.in_doubt
        if tenants and room:
            tenants.acquired(room, acquisition.jobs)
        return acquisition

    def _lock(self, limit: int, scope: ServedJobs) -> Acquisition:
        """Lock a page of the table."""
        engine = self._engine
        return acquire_jobs(
            engine.alias,
            self.node.owner,
            limit,
            scope,
            lock_time=engine.lock_time,
            strategy=engine.acquisition,
            force_after=engine.global_lock_force_acquire_after,
            cursor=self._cursor,
        )

    def _release_strays(self) -> None:
        """Release jobs locked by a commit that went through before or with an error; no thread knows of them."""
        if not (self._in_doubt or self._doubted):
            return
        self._in_doubt, self._doubted = True, False
        using = self.node.using
        count = release_strays(using, self.node.owner, self._in_hand)
        self._in_doubt = False
        self._cursor = AcquisitionCursor()  # the released jobs may be before its position
        if count:
            logger.warning(
                "%d jobs on %s were locked by this node, but it does not hold them; they are released", count, using
            )
