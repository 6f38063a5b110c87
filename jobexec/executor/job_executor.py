"""Builds the services from the settings, starts them in order and stops them in reverse order."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby
from typing import Any

from jobexec import clock
from jobexec.conf import Settings, get_settings
from jobexec.handlers.base import JobHandler
from jobexec.handlers.context import JobContext, current_job
from jobexec.operations.enqueue.follow_ups import Hold, ask_before_inserts
from jobexec.operations.settle.release import release_jobs
from jobexec.operations.sql.errors import one_line
from jobexec.operations.sql.locks import is_single_writer
from jobexec.operations.values.acquired_job import AcquiredJob
from jobexec.operations.values.failure_log import failure_log
from jobexec.operations.values.followers import MOST, Followers, Streak

from ..runtime.threads import Deadline, Service, call_in_thread
from .async_worker.worker import AsyncWorker
from .engine import Engine
from .loops.acquisition import JobAcquisition
from .loops.solitary import Held, SolitaryProcesses
from .loops.timeouts import Timeouts
from .pool.chunk import Chunk
from .pool.fair_queue import Batch, Kind
from .pool.pool import Pool
from .run.ahead import look_ahead, looks_ahead
from .run.execution import execute_batch
from .run.forks import generation
from .run.group import are_alike, execute_group, may_share
from .run.outcomes import Outcome
from .run.running import RunningJobs

logger = logging.getLogger("jobexec.executor")

#: Seconds for which each job has its own transaction after one that several should have shared, and no two could.
_APART = 1.0
_LOOP_STOP = 10.0
_GIVE_BACK = 10.0
_SETTLE_STOP = 10.0
_LANE_STOP = 2.0
_CHILD_STOP = 5.0


class JobExecutor(Service):
    """The job executor: acquisition, timers, recovery and settlement for each engine, one pool for all.

    Can be embedded: ``executor = JobExecutor(); executor.start(); ...; executor.stop()``. Nothing starts by itself.
    ``settings`` are the project's by default; ``get_settings().replace(threads=2)`` returns others. With
    ``from_broker``, the broker of the settings announces the jobs, and the tables are polled only rarely. ``command``
    starts a process like this one, for jobs that were lost twice; without it, they run here, while no other job runs.
    With ``held``, the executor takes over that one job and does nothing else.
    """

    #: A run may end with others, see :class:`~jobexec.handlers.base.SharedEnd`.
    shares_ends = True

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        from_broker: bool = False,
        command: Sequence[str] = (),
        held: Held | None = None,
    ) -> None:
        self.from_broker = from_broker
        self.settings = settings or get_settings()
        self.node_name = self.settings.node_name
        self.shutting_down = False
        #: Why this process should drain and be restarted; None while it need not be. Any part of the executor that
        #: finds a reason (an unusable thread, for example) sets it; the command reads it (``limits.reasons``).
        self.restart_reason: str | None = None
        self._started = False
        #: The process whose threads it has.
        self._process = generation()
        #: When jobs may share a transaction again, by the monotonic clock.
        self._shared_from = 0.0
        self._lifecycle = threading.RLock()
        settings, engines = self.settings, dict(self.settings.engines)
        if held is not None:  # one acquisition takes it over, however many the engine defines
            engines = {alias: replace(engine, acquisitions=()) for alias, engine in engines.items()}
        shares = [acquirer.share for engine in engines.values() for acquirer in engine.acquirers]
        self.async_worker = AsyncWorker(self, self._left_async, settings.async_threads)
        self.pool = Pool(
            settings.threads,
            settings.queue_size,
            self._run,
            self._give_back,
            shares,
            async_worker=self.async_worker,
            async_size=settings.async_jobs,
        )
        self.running = RunningJobs(hurry=lambda: self.timeouts.wake())
        self.timeouts = Timeouts(
            self.running, self.pool, self.submit, self._restart, self.node_name, settings.max_stuck_threads
        )
        self.engines = {
            alias: Engine(
                settings, engine, self.pool, self.running, from_broker, held, stopping=lambda: self.shutting_down
            )
            for alias, engine in engines.items()
        }
        for each in self.engines.values():
            each.shared_settlement.at_home = self._at_home
        self.solitude = SolitaryProcesses(command) if command else None
        if self.solitude is not None:
            self.solitude.doubt = lambda using: self.engines[using].doubt()
            for alias, engine in self.engines.items():
                if not is_single_writer(alias):  # a single-writer database accepts one executor
                    engine.apart = self.solitude.jobs
                    for acquisition in engine.acquisitions.values():
                        acquisition.sift = self.solitude.sift
        self.pool.on_idle = self._flush
        self.pool.distinguish(self._kind_of, self._run_shared, look_ahead)
        if settings.tenant_concurrency:
            self.pool.on_left = self._left
        acquisitions = [each for engine in self.engines.values() for each in engine.acquisitions.values()]
        self._hinted = any(acquisition.waiting.hinted_by_batches for acquisition in acquisitions)

    # Start and stop.

    @property
    def _services(self) -> list[Service]:
        """In starting order; :meth:`stop` goes backwards: acquisition first, the lease last."""
        engines = self.engines.values()
        heartbeats, settlements = (
            [each.heartbeat for each in engines],
            [one for each in engines for one in each.settlements],
        )
        meters, monitors = [each.meters for each in engines], [each.monitor for each in engines]
        first = [*heartbeats, *meters, *settlements, *monitors]
        apart = [self.solitude] if self.solitude else []
        return [*first, self.timeouts, self.async_worker, self.pool, *apart, *engines]

    def start(self) -> None:
        """Start everything; if something cannot start, stop what has started and raise the reason."""
        with self._lifecycle:
            if self._started:
                return
            self.shutting_down, self._started = False, True
            self._process = generation()
            try:
                for service in self._services:
                    service.start()
            except BaseException:
                self.stop(0)
                raise

    def stop(self, timeout: float | None = None) -> bool:
        """Drain: acquire no more jobs, let running jobs finish for ``timeout`` seconds (default GRACE_PERIOD), settle.

        Jobs that have not started are unlocked and lose no retry. Returns whether everything ended in time; recovery
        releases the jobs that still run.
        """
        with self._lifecycle:
            if not self._started:
                return True
            self._started = False
            self.shutting_down = True
            return self._stop(self.settings.grace_period.total_seconds() if timeout is None else timeout)

    def _stop(self, grace: float) -> bool:
        engines, deadline = self.engines.values(), Deadline(grace)
        for engine in engines:
            engine.stop(_LOOP_STOP)
        if self.solitude is not None:
            self.solitude.ask_to_stop()
        drained = self.pool.stop(grace)
        if self.solitude is not None:  # each child has its own lease: one that does not end in time needs us no more
            self.solitude.stop(deadline.left + _CHILD_STOP)
        drained = self.async_worker.stop(_LOOP_STOP if drained else _LANE_STOP) and drained
        self.timeouts.stop(_LOOP_STOP)
        for engine in engines:
            engine.monitor.stop(_LOOP_STOP)
        settled = [settlement.stop(_SETTLE_STOP) for engine in engines for settlement in engine.settlements]
        for engine in engines:
            engine.meters.stop(_LOOP_STOP)
        failure_log.finish(now=True)
        if drained and all(settled):
            stopped = [engine.heartbeat.stop(_LOOP_STOP) for engine in engines]
            return all(stopped)
        # The node's row must stay while a job runs: its lease keeps other nodes from running the job too.
        for engine in engines:
            engine.heartbeat.abandon(_LOOP_STOP)
        logger.warning("The executor stopped while it still held jobs; their locks expire with its lease")
        return False

    def wake(self) -> None:
        """Wake up the loops of all engines: there may be work."""
        for engine in self.engines.values():
            engine.wake()

    @property
    def idle(self) -> bool:
        """Nothing is queued, running or waiting to be settled here."""
        apart = self.solitude is None or self.solitude.empty
        return (
            apart
            and self.pool.empty
            and all(settlement.empty for engine in self.engines.values() for settlement in engine.settlements)
        )

    @property
    def to_drain(self) -> bool:
        """Whether an operator wants this process to end."""
        return any(engine.node.to_drain for engine in self.engines.values())

    @property
    def running_jobs(self) -> int:
        """How many jobs run on its threads and in their own processes."""
        return self.pool.load()["busy_threads"] + (self.solitude.running if self.solitude else 0)

    # Called by the pool.

    def _run(self, batch: Batch) -> None:
        execute_batch(batch, self)
        if self._hinted:
            self._acquisition_of(batch).waiting.batch_ended()

    def _kind_of(self, batch: Batch) -> Kind:
        work = batch[0]
        if not work.atomic:
            return Kind.AHEAD if looks_ahead(batch) else Kind.PLAIN
        return Kind.SHARED if may_share(batch) and clock.monotonic() >= self._shared_from else Kind.PLAIN

    def _run_shared(self, batch: Batch, chunk: Chunk) -> None:
        shares = self._kind_of(batch) is Kind.SHARED
        others = chunk.more(lambda other: may_share(other) and are_alike(batch, other)) if shares else []
        if not others:
            self._run(batch)
            return
        group = [batch, *others]
        left = group
        try:
            left = execute_group(group, self)
        finally:  # also after unforeseen errors: jobs that nobody has stay locked as long as the process lives
            chunk.give_back(left)
        if sum(one[0].alone for one in left) >= len(group) - 1:
            self._shared_from = clock.monotonic() + _APART
        if self._hinted:
            for _ in range(len(group) - len(left)):
                self._acquisition_of(batch).waiting.batch_ended()

    def _acquisition_of(self, batch: Batch) -> JobAcquisition:
        return self.engines[batch[0].using].acquisitions[batch[0].share]

    def _left_async(self, batches: Sequence[Batch]) -> None:
        if self._hinted:
            for batch in batches:
                self._acquisition_of(batch).waiting.batch_ended()
        self.pool.leave(batches)

    def _left(self, batches: Sequence[Batch]) -> None:
        """Check whether tenants have room again, after a job has ended."""
        for batch in batches:
            tenants = self._acquisition_of(batch).tenants
            if tenants is not None:
                tenants.left(batch)

    def _give_back(self, batches: Sequence[Batch]) -> None:
        try:
            call_in_thread("jobexec-give-back", lambda: self._release(batches), _GIVE_BACK)
        except TimeoutError as error:
            logger.warning("Jobs could not be released so far (%s)", one_line(error))  # the thread goes on

    def _release(self, batches: Sequence[Batch]) -> None:
        jobs = sorted((work for batch in batches for work in batch), key=lambda work: work.using)
        for using, group in groupby(jobs, key=lambda work: work.using):
            try:
                release_jobs(using, list(group))
            except Exception as error:
                logger.warning("Jobs on %s could not be released (%s); trying again", using, one_line(error))
                self.engines[using].doubt()  # if it stops, its last heartbeat or recovery releases them

    def _flush(self) -> None:
        """Write the waiting outcomes now: nothing runs or is queued, so no others will join them."""
        for engine in self.engines.values():
            for settlement in engine.settlements:
                settlement.flush()

    def _restart(self, reason: str) -> None:
        self.restart_reason = reason

    # Called by the execution (Host).

    def begin(self, context: JobContext, handler: JobHandler) -> None:
        self.running.begin(context, handler)

    def end(self, context: JobContext) -> None:
        self.running.end(context)

    def owns(self, lock_owner: str, using: str) -> bool:
        return self.engines[using].node.owns(lock_owner)

    def may_start(self, work: AcquiredJob) -> bool:
        """Whether this job may start: the executor is not stopping, the lock is valid, and its resource lets it."""
        node = self.engines[work.using].node
        if not self.shutting_down and node.owns(work.lock_owner):
            return work.resource is None or not self._is_cut_off(work)
        while not self.shutting_down:
            if node.wait_until_decided(work.lock_owner, 1.0):
                return work.resource is None or not self._is_cut_off(work)
            if node.owner != work.lock_owner:
                return False
        return False

    def _is_cut_off(self, work: AcquiredJob) -> bool:
        """Whether the circuit breaker of the job's resource is open, or was: then it goes back to wait."""
        promotion = self.engines[work.using].promotion
        return promotion is not None and not promotion.lets_begin(work)

    def verdict(self, work: AcquiredJob) -> bool | None:
        """Whether this job may start; None if a heartbeat must first find out whether its lock is valid."""
        node = self.engines[work.using].node
        if self.shutting_down or node.owner != work.lock_owner:
            return False
        if work.resource is not None and self._is_cut_off(work):
            return False
        return True if node.good else None

    def submit(self, outcome: Outcome) -> None:
        self.engines[outcome.work.using].submit(outcome)

    def has_settled_itself(self, outcome: Outcome) -> None:
        """Count an atomic job, which is already settled and committed."""
        engine = self.engines[outcome.work.using]
        engine.node.meters.ended([outcome])
        if engine.promotion is not None:
            engine.promotion.ended([outcome])

    def settle_before(self, outcome: Outcome, siblings: Batch) -> None:
        """Settle an outcome and put its siblings back into the queue after its commit."""
        outcome.siblings = siblings
        self.pool.park(siblings)
        self.submit(outcome)

    def settle(self, outcome: Outcome) -> bool:
        return self.engines[outcome.work.using].settle(outcome)

    @contextmanager
    def _at_home(self, outcomes: Sequence[Outcome]) -> Iterator[None]:
        """Let the jobs that a shared end creates stay here, as those of a handler do."""
        works = [outcome.work for outcome in outcomes]
        work = min(works, key=lambda each: each.followers.streak.left if each.followers else MOST)
        streak = work.followers.streak if work.followers else Streak()
        stand_in = replace(work, exclusive=False, followers=Followers(streak), ended=False)
        context = JobContext(stand_in, self)
        token = context.enter()
        try:
            yield
        finally:
            context.leave(token)
            self.follow(stand_in, [])

    def follow(self, work: AcquiredJob, batch: Batch) -> Batch:
        """The follow-ups of a run that has ended, which now belong to its batch."""
        follow_ups = self.engines[work.using].follow_ups
        return follow_ups.end(work, batch) if follow_ups is not None else []

    # Called when jobs are enqueued.

    def hold(self, context: JobContext, using: str, columns: Mapping[str, Any], count: int) -> Hold | None:
        """Decide whether jobs that a handler of this executor enqueues stay here."""
        if generation() != self._process:
            return None  # a child that the handler forked has a copy of the pool without its threads, perhaps locked
        follow_ups = self.engines[using].follow_ups if context.using == using else None
        return follow_ups.hold(context, columns, count) if follow_ups is not None else None


def _hold(using: str, columns: Mapping[str, Any], count: int) -> Hold | None:
    context = current_job()
    if context is None or not isinstance(context.host, JobExecutor):
        return None
    return context.host.hold(context, using, columns, count)


ask_before_inserts(_hold)
