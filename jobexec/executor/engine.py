"""The loops that serve one engine."""

from __future__ import annotations

from collections.abc import Callable, Collection

from jobexec.conf import EngineSettings, Settings
from jobexec.operations.maintenance.heartbeat_probes import (
    BLOCKED_JOBS,
    DEAD_NODES,
    HISTORY_SOON,
    MESSAGES_SOON,
    OVERRIDES,
    SCHEDULES_SOON,
    SUSPENSIONS,
    TIMERS_SOON,
)
from jobexec.operations.notify.wake import (
    BLOCKED,
    EVERYTHING,
    HISTORY,
    JOBS,
    MESSAGES,
    SCHEDULES,
    TIMERS,
    add_listener,
    remove_listener,
)
from jobexec.operations.values.acquired_job import AcquiredJob

from ..runtime.connection_count import can_listen
from ..runtime.notifications import Listener
from ..runtime.threads import Deadline, Loop, Service
from .loops.acquisition import JobAcquisition
from .loops.alerts import DeadLetterAlerts
from .loops.broker_acquisition import BrokerAcquisition
from .loops.broker_consumer import BrokerConsumer
from .loops.cleanup import HistoryCleanup
from .loops.commits import CommitWatch, can_watch
from .loops.follow_ups import FollowUps
from .loops.heartbeat import Heartbeat
from .loops.history import HistoryWriting
from .loops.meter_writing import MeterWriting
from .loops.monitor import Monitor
from .loops.promotion import Promotion
from .loops.recovery import Recovery
from .loops.settlement import Settlement, SharedSettlement
from .loops.solitary import Held, SolitaryAcquisition
from .loops.suspensions import SuspensionSweep
from .loops.tenants import Tenants
from .loops.timers import TimerAcquisition
from .nodes.node import Node
from .pool.pool import Pool
from .run.outcomes import Outcome
from .run.running import RunningJobs


class Engine(Service):
    """Acquisition, timers, suspensions, recovery, history and, on PostgreSQL, the listener of one database.

    Its heartbeat, settlements, meters and monitor are started and stopped separately, because they outlive the pool.
    """

    def __init__(
        self,
        settings: Settings,
        engine: EngineSettings,
        pool: Pool,
        running: RunningJobs,
        from_broker: bool = False,
        held: Held | None = None,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self.using, self._pool, self._held = engine.alias, pool, held
        self.node = Node(settings, engine, lambda: {**pool.load(), "running": running.report(engine.alias)})
        self.heartbeat = Heartbeat(self.node)
        self._listener = Listener(self.node, self.heard) if can_listen(engine) and held is None else None
        self._source = CommitWatch(self.node, self.heard) if can_watch(engine) else self._listener
        self.consumer: BrokerConsumer | None = None
        acquiring = BrokerAcquisition if from_broker else JobAcquisition
        if held is not None:
            acquiring = SolitaryAcquisition
        #: Keyed by the name of their share of the pool.
        self.acquisitions: dict[str, JobAcquisition] = {}
        for settings_of_one in engine.acquirers:
            # Notifications of SQLite's commits use one connection, the first acquisition's; a listener can be shared.
            source = self._listener if self.acquisitions else self._source
            acquisition = acquiring(self.node, pool, self._hears_of_jobs, self._in_hand, source, settings_of_one)
            self.acquisitions[settings_of_one.share] = acquisition
            if isinstance(acquisition, BrokerAcquisition):
                self.consumer = BrokerConsumer(self.node, acquisition.wake, acquisition.look)
                acquisition.consumer = self.consumer
            elif isinstance(acquisition, SolitaryAcquisition) and held is not None:
                acquisition.held = held
        if settings.tenant_concurrency:
            tenants = Tenants(self.using, settings.tenant_concurrency, pool.jobs_in_hand, self._look)
            for acquisition in self.acquisitions.values():
                acquisition.tenants = tenants
        #: Jobs of this engine in hand outside the pool and the settlement.
        self.apart: Callable[[str], list[AcquiredJob]] = lambda using: []
        self.timers = TimerAcquisition(self.node, self._listening)
        self.recovery = Recovery(self.node, self._recovered)
        self.suspensions = SuspensionSweep(self.node)
        self.history, self.cleanup = HistoryWriting(self.node), HistoryCleanup(self.node)
        self.monitor = Monitor(self.node, running, pool.jobs_in_hand)
        self.node.looked = self.looked
        self.meters = MeterWriting(self.node)
        self.settlement = Settlement(self.node, self.timers.wake, pool)
        self.shared_settlement = SharedSettlement(self.node, self.timers.wake, pool)
        self.settlements = [self.settlement, self.shared_settlement]
        self.alerts = DeadLetterAlerts(self.node) if settings.dead_letter_alerts else None
        #: None if every job is to be acquired, also those that handlers enqueue.
        self.follow_ups = self._home(stopping) if settings.follow_ups and held is None else None
        #: Without RESOURCES no job is blocked.
        self.promotion = Promotion(self.node, self._listening, self.follow_ups) if settings.resources else None
        self._connect()

    def _connect(self) -> None:
        if self.promotion is not None:
            self.promotion.in_hand, self.promotion.withdraw = self._in_hand, self._withdraw
            self.settlement.passing_on = self.promotion.passing_on
        for settlement in self.settlements:
            settlement.after_outcomes = self.promotion.ended if self.promotion else lambda outcomes: None
        for acquisition in self.acquisitions.values():
            acquisition.may_acquire = self._has_room

    def _home(self, stopping: Callable[[], bool]) -> FollowUps:
        return FollowUps(
            self.node,
            self._pool,
            self.acquisitions,
            self.settlement.submit,
            stopping=lambda: stopping() or self.node.paused,
        )

    def submit(self, outcome: Outcome) -> None:
        """Accept an outcome; returns at once."""
        (self.settlement if outcome.shared is None else self.shared_settlement).submit(outcome)

    def settle(self, outcome: Outcome) -> bool:
        """Accept an outcome and wait until it is committed; returns whether it counted."""
        return (self.settlement if outcome.shared is None else self.shared_settlement).settle(outcome)

    def _has_room(self, on_room: Callable[[], object]) -> bool:
        return all(settlement.has_room(on_room) for settlement in self.settlements)

    def _listening(self) -> bool:
        return self._source is not None and self._source.listening

    def _hears_of_jobs(self) -> bool:
        """False for the database's notifications if a broker announces the jobs."""
        return self._listening() and not (self._listener and self.node.settings.dispatch == "broker")

    @property
    def _loops(self) -> list[Loop]:
        if self._held is not None:
            return [*self.acquisitions.values()]  # one job, and none of the work that other nodes do
        loops: list[Loop] = [self.recovery, self.suspensions, self.cleanup, self.history, self.timers]
        loops += [each for each in (self.promotion, self.alerts) if each]
        loops += [*([self.consumer] if self.consumer else ()), *self.acquisitions.values()]
        return [*loops, self._listener] if self._listener else loops

    def start(self) -> None:
        add_listener(self.hear)
        for loop in self._loops:
            loop.start()

    def stop(self, timeout: float) -> bool:
        """Stop acquisition first; returns whether all loops have ended."""
        remove_listener(self.hear)
        self.node.drain()
        loops, deadline = list(reversed(self._loops)), Deadline(timeout)
        for loop in loops:
            loop.ask_to_stop()
        stopped = [loop.stop(deadline.left) for loop in loops]
        return all(stopped)

    def _in_hand(self) -> list[AcquiredJob]:
        # In the order in which jobs move on: each is in the next place before it leaves the one before.
        followers = self.follow_ups.jobs() if self.follow_ups is not None else []
        settled = [job for settlement in self.settlements for job in settlement.jobs_in_hand()]
        return followers + self._pool.jobs_in_hand() + settled + self.apart(self.using)

    def doubt(self) -> None:
        """Some jobs may be locked for this node without being in hand: look for them, and release them."""
        for acquisition in self.acquisitions.values():
            acquisition.doubt()

    def _withdraw(self, resources: Collection[str]) -> None:
        for batch in self._pool.withdraw(lambda job: job.using == self.using and job.resource in resources):
            for job in batch:
                self.submit(Outcome(job))

    def wake(self) -> None:
        """Make all loops check their tables: there may be work."""
        self.timers.schedules.ask()
        self.timers.messages.ask()
        self._look()
        self.heard(BLOCKED)
        for loop in (self.timers, self.history):
            loop.wake()

    def _look(self) -> None:
        """Poll: there may be jobs without a notification."""
        for acquisition in self.acquisitions.values():
            acquisition.look()

    def _recovered(self) -> None:
        """Jobs of dead nodes may run, and permits of those that have ended are free."""
        self._look()
        self.heard(BLOCKED)

    def looked(self, answers: frozenset[str]) -> None:
        """Wake up the loops whose work the last heartbeat has seen."""
        loops: dict[str, Loop] = {DEAD_NODES: self.recovery, SUSPENSIONS: self.suspensions, TIMERS_SOON: self.timers}
        loops |= {HISTORY_SOON: self.history, OVERRIDES: self.suspensions, SCHEDULES_SOON: self.timers}
        if SCHEDULES_SOON in answers:
            self.timers.schedules.ask()
        if MESSAGES_SOON in answers:
            self._wake_messages()
        if BLOCKED_JOBS in answers or (self.promotion is not None and self.promotion.held):
            self.heard(BLOCKED)
        for answer in answers & loops.keys():
            loops[answer].wake()

    def hear(self, using: str, content: str = EVERYTHING) -> None:
        """A commit in this process created jobs on the database ``using``."""
        if using == self.using:
            self.heard(content)

    def heard(self, content: str = EVERYTHING) -> None:
        """Wake up the loops that a notification concerns; all of them for content of another release."""
        kind, _, name = content.partition(":")
        wakes: dict[str, Callable[[], object]] = {
            JOBS: self._wake_acquisitions,
            TIMERS: self.timers.wake,
            SCHEDULES: self._wake_schedules,
            MESSAGES: self._wake_messages,
            HISTORY: self.history.wake,
            BLOCKED: lambda: self._wake_promotion(name),
        }
        for wake in [wakes[kind]] if kind in wakes else wakes.values():
            wake()

    def _wake_acquisitions(self) -> None:
        for acquisition in self.acquisitions.values():
            acquisition.wake()

    def _wake_promotion(self, resource: str) -> None:
        if self.promotion is not None:
            self.promotion.ask(resource)

    def _wake_messages(self) -> None:
        self.timers.messages.ask()
        self.timers.wake()

    def _wake_schedules(self) -> None:
        self.timers.schedules.ask()
        self.timers.wake()
