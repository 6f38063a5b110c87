"""Acquires the jobs that the broker announces; polls the table rarely, for jobs without an announcement."""

from __future__ import annotations

from uuid import UUID

from jobexec import clock
from jobexec.operations.acquire.by_ids import acquire_ids
from jobexec.operations.values.acquired_job import Acquisition, ServedJobs

from ..waiting import Round
from .acquisition import JobAcquisition
from .broker_consumer import BrokerConsumer
from .broker_inbox import Entry, Inbox


class BrokerAcquisition(JobAcquisition):
    """Locks the jobs named by messages, as far as the pool has room.

    It polls the table for any jobs (the slow poll) at its start, every BROKER_POLL_INTERVAL, after a reconnect to the
    broker, after the recovery of jobs of dead nodes, and, while the broker is away, as often as MAX_WAIT; each time
    until a page is not full.
    """

    consumer: BrokerConsumer
    _look_at = 0.0
    _asked = True
    _looking = False

    @property
    def inbox(self) -> Inbox:
        return self.consumer.inbox

    def start(self) -> None:
        self._asked = True
        super().start()

    def look(self) -> None:
        self._asked = True
        self.wake()

    def run_once(self) -> float:
        self._looking = self._asked or clock.monotonic() >= self._look_at
        self._asked = False
        if not self._looking and not self.inbox.ready:
            if self.consumer.paused:
                self._ask_for_room()
            return self._until_next()
        return super().run_once()

    def _ask_for_room(self) -> None:
        share = self._engine.share
        room = self.pool.reserve(self._engine.max_jobs_per_acquisition, self.wake, share)
        if room:
            self.pool.submit([], room, share)
            self.consumer.resume(room)

    def _page(self) -> int:
        most = super()._page()
        return most if self._looking else min(most, self.inbox.ready)

    def _lock(self, limit: int, scope: ServedJobs) -> Acquisition:
        return super()._lock(limit, scope) if self._looking else self._lock_named(limit, scope)

    def _lock_named(self, limit: int, scope: ServedJobs) -> Acquisition:
        engine = self._engine
        entries = self.inbox.take(limit)
        settled = False
        try:
            named = acquire_ids(
                engine.alias,
                self.node.owner,
                [entry.id for entry in entries],
                limit,
                scope,
                lock_time=engine.lock_time,
                strategy=engine.acquisition,
                force_after=engine.global_lock_force_acquire_after,
            )
            self._settle(entries, named.left, full=len(named.acquisition.jobs) >= limit)
            settled = True
        finally:
            if not settled:  # the database does not answer, or nodes collided
                self.inbox.again(entries, costs=True)
        return named.acquisition

    def _settle(self, entries: list[Entry], left: frozenset[UUID], *, full: bool) -> None:
        again = [entry for entry in entries if entry.id in left]
        self.inbox.done(entry for entry in entries if entry.id not in left)
        self.inbox.again(again, costs=not full)

    def _after(self, acquisition: Acquisition, round: Round, began: float) -> float:
        if not round.requested:  # the pool wakes us up when there is room
            self._asked = self._asked or self._looking
            if len(self.inbox):
                self.inbox.stuck()
            return self._engine.max_wait.total_seconds()
        if self._looking:
            self._looked(acquisition, round)
        return self._until_next()

    def _looked(self, acquisition: Acquisition, round: Round) -> None:
        now, engine = clock.monotonic(), self._engine
        wait = self._interval
        if acquisition.lock_taken or round.lock_failures:
            wait = engine.wait_time.total_seconds()
        elif round.found >= round.requested:
            wait = 0.0
        elif (unseen := self._cursor.unseen()) is not None:
            wait = min(wait, unseen)
        self._look_at = now + wait

    @property
    def _interval(self) -> float:
        if self.consumer.away:
            return min(self._engine.max_wait, self.node.settings.broker_poll_interval).total_seconds()
        return self.node.settings.broker_poll_interval.total_seconds()

    def _until_next(self) -> float:
        """Seconds until jobs can be tried, or until the next poll of the table."""
        left = max(0.0, self._look_at - clock.monotonic())
        waits = self.inbox.pause()
        return left if waits is None else min(left, waits)
