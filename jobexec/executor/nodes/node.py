"""This executor's row and lease on one engine."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

from jobexec import clock, signals, tracing
from jobexec.conf import EngineSettings, Settings
from jobexec.handlers.registry import all_handlers, known_names
from jobexec.handlers.schedules import declarations
from jobexec.models import ExecutorNode, NodeState, OperatorType
from jobexec.operations.audit import acting
from jobexec.operations.maintenance import heartbeat_probes
from jobexec.operations.nodes import deployments, leases
from jobexec.operations.schedules import sync
from jobexec.operations.settle import recover
from jobexec.operations.sql.locks import atomic, is_single_writer
from jobexec.operations.values.acquired_job import ServedJobs
from jobexec.operations.values.category_turns import Turns
from jobexec.operations.values.operator import Operator

from .lease_judgement import LeaseJudgement
from .meters import Meters

logger = logging.getLogger("jobexec.executor")

#: Seconds after which the deployments are read again although a heartbeat has seen no new ones: some may have gone.
_READ_SCOPE_EVERY = 300.0


class Node:
    """The lease that makes this executor's locks valid, by the monotonic clock, and the jobs that it serves.

    Between the last heartbeat and the end of the lease everything goes on; past its end no job starts and nothing is
    settled until a heartbeat has found the row unchanged (the lease is valid again) or gone (a new boot begins, and
    the old one's jobs are no longer ours).
    """

    def __init__(self, settings: Settings, engine: EngineSettings, load: Callable[[], dict[str, Any]]) -> None:
        self.settings = settings
        self.engine = engine
        self.using = engine.alias
        self._categories = tuple(
            name for name in settings.categories if any(each.serves(name) for each in engine.acquirers)
        )
        #: What all acquisitions of the engine serve together; see :meth:`scope_of`.
        self.scope = ServedJobs(categories=self._categories)
        self._load = load
        self._row: ExecutorNode | None = None
        self._good_until = 0.0
        self._judging = LeaseJudgement(settings.lease_time.total_seconds(), settings.heartbeat_interval.total_seconds())
        self._draining = False
        #: Whether an operator wants it to take no more jobs, or the process to end.
        self.paused = self.to_drain = False
        self._decided = threading.Condition()
        #: Held while pages are locked or outcomes are written, where one writer locks the whole database: a thread that
        #: waits here wakes up at once, a thread that waits in SQLite sleeps for up to a tenth of a second.
        self.writing = threading.Lock() if is_single_writer(self.using) else nullcontext()
        #: Held from before a page is locked until the pool has it: the acquisitions of an engine have one lock owner,
        #: and a job that one of them has just locked must not look like a stray to another.
        self.acquiring = threading.Lock()
        self._scope_read = 0.0
        #: Whether schedules are to be declared again while the node lives.
        self.declares = False
        #: Counts of this engine, from all of its threads.
        self.meters = Meters(self.using)
        #: Called after each heartbeat with the names of the questions (``heartbeat_probes``) that were answered by yes.
        self.looked: Callable[[frozenset[str]], None] = lambda answers: None

    @property
    def owner(self) -> str:
        """The lock owner of this boot; '' before the node is registered."""
        return self._row.lock_owner if self._row else ""

    @property
    def good(self) -> bool:
        """Whether the lease is valid now."""
        return clock.monotonic() < self._good_until

    @property
    def lease_left(self) -> float:
        """Seconds until the lease expires; 0 once it has."""
        return max(0.0, self._good_until - clock.monotonic())

    @property
    def may_judge(self) -> bool:
        """Whether this node may declare other nodes with an expired lease dead."""
        return self.good and self._judging.allowed()

    def owns(self, lock_owner: str) -> bool:
        """Whether locks of this owner are ours and valid now."""
        row = self._row  # called before each job: without the overhead of the properties
        return row is not None and row.lock_owner == lock_owner and clock.monotonic() < self._good_until

    def wait_until_decided(self, lock_owner: str, timeout: float) -> bool:
        """Wait while the lease is expired but not yet lost; returns whether the owner's locks are valid then."""
        with self._decided:
            self._decided.wait_for(lambda: self.good or self.owner != lock_owner, timeout)
        return self.owns(lock_owner)

    def register(self) -> None:
        """Begin a boot: the node's row, its deployment, its job definitions and schedules. Raises NodeRefused."""
        started, settings = clock.monotonic(), self.settings
        profile = leases.NodeProfile(
            name=settings.node_name,
            threads=settings.threads,
            queue_size=settings.queue_size,
            categories=self._categories,
            deployment_aware=self.engine.deployment_aware,
            deployment=settings.deployment or "",
        )
        with atomic(self.using):  # a node whose deployment cannot be written must not leave its row behind
            row = leases.register_node(self.using, profile, settings.lease_time)
            self._write_deployment(row.lock_owner)
        with self._decided:
            self._row = row
            self._good_until = started + settings.lease_time.total_seconds()
            self._judging.begin()
            self._decided.notify_all()
        self.scope = self._scope()
        if leases.live_namesakes(self.using, row):
            logger.warning(
                "Another live node is named %r: their locks are separate, but they share deployment "
                "registrations. Give each node its own name (--node).",
                row.name,
            )
        signals.node_started.send_robust(sender=ExecutorNode, using=self.using, node=row)

    def declare_schedules(self, lock_owner: str | None = None) -> None:
        """Write the schedules declared in this process's code; :attr:`declares` is whether to do so again."""
        declared = [sync.Declared(*row) for row in declarations(self.using)]
        owner = lock_owner or self.owner
        self.declares = sync.sync_schedules(self.using, declared, known_names(), owner)

    def _write_deployment(self, lock_owner: str) -> None:
        handlers = all_handlers()
        deployments.write_job_definitions([handler.definition() for handler in handlers], using=self.using)
        self.declare_schedules(lock_owner)
        deployment = self.settings.deployment
        if deployment:
            node = Operator(OperatorType.EXECUTOR, self.settings.node_name, "runjobexecutor", socket.gethostname())
            with acting(node):
                deployments.deploy(deployment, [handler.name for handler in handlers], using=self.using)
            deployments.register_own_deployment(deployment, self.settings.node_name, using=self.using)

    def _scope(self) -> ServedJobs:
        self._scope_read = clock.monotonic()
        if self.engine.deployment_aware:
            served = deployments.registered_deployments(self.settings.node_name, using=self.using)
        else:
            served = deployments.all_deployments(self._categories, using=self.using)
        order = self.settings.category_order
        return ServedJobs(self._categories, tuple(served), category_order=order, wide=tracing.enabled())

    def scope_of(self, acquisition: EngineSettings, turns: Turns | None = None) -> ServedJobs:
        """The jobs that one acquisition of the engine serves."""
        scope = self.scope
        lowest, highest = acquisition.priority_range
        categories = tuple(filter(acquisition.serves, scope.categories))
        return replace(scope, categories=categories, priority_min=lowest, priority_max=highest, turns=turns)

    @property
    def scopes(self) -> list[ServedJobs]:
        """The jobs that each acquisition of the engine serves."""
        return [self.scope_of(each) for each in self.engine.acquirers]

    def renew(self) -> bool:
        """Send a heartbeat. False if the node had been declared dead meanwhile and has begun a new boot."""
        started, row = clock.monotonic(), self._row
        if row is None:
            return False  # it has left
        ask, lease_time = self._questions(), self.settings.lease_time
        with self._judging.unless_it_fails():
            renewal = leases.renew_lease(self.using, row, lease_time, questions=ask, **self._report())
        if renewal is None:
            if self._row is not row:
                return False  # it has left meanwhile, and must not come back
            logger.error("Node %s was declared dead on %s; it registers again.", self.owner, self.using)
            self.register()
            return False
        with self._decided:
            self._good_until = started + self.settings.lease_time.total_seconds()
            self._judging.beat(renewal.step.total_seconds())
            self._decided.notify_all()
        self._heed(row, renewal.answers)
        return True

    def _questions(self) -> heartbeat_probes.Questions:
        """The questions of the other loops, and whether the scope still matches the existing deployments."""
        soon = clock.now(self.using) + 2 * self.settings.heartbeat_interval
        name = self.settings.node_name if self.engine.deployment_aware else None
        deployments = heartbeat_probes.questions_about_deployments(self.using, self.scope, name)
        return heartbeat_probes.questions(self.using, self.owner, soon) | heartbeat_probes.REQUESTS | deployments

    def _heed(self, row: ExecutorNode, answers: frozenset[str]) -> None:
        others = any(name.startswith(heartbeat_probes.DEPLOYMENTS) for name in answers)
        self.to_drain = heartbeat_probes.TO_DRAIN in answers
        paused = heartbeat_probes.PAUSED in answers or self.to_drain
        if paused != self.paused:
            self.paused = paused
            logger.info("Node %s on %s: an operator has %s it", self.owner, self.using, self._requested())
            leases.renew_lease(self.using, row, self.settings.lease_time, **self._report())
        if others or clock.monotonic() - self._scope_read >= _READ_SCOPE_EVERY:
            before, self.scope = self.scope, self._scope()
            if self.scope.deployments != before.deployments:
                leases.renew_lease(self.using, row, self.settings.lease_time, **self._report())
        self.looked(answers)

    def _requested(self) -> str:
        return "drained" if self.to_drain else "paused" if self.paused else "resumed"

    def _report(self) -> dict[str, Any]:
        state = NodeState.PAUSED if self.paused else NodeState.ACTIVE
        state = NodeState.DRAINING if self._draining or self.to_drain else state
        return {"state": state, "deployments": list(self.scope.deployments), **self._load()}

    def serve(self) -> None:
        """Let the next heartbeat report that this node takes jobs (again)."""
        self._draining = False

    def drain(self) -> None:
        """Let the next heartbeat report that this node takes no new jobs."""
        self._draining = True

    def leave(self) -> None:
        """End the boot: release whatever it still holds, without costing a retry, and delete its row last."""
        row, self._row = self._row, None
        self._good_until = 0.0
        if row is not None:
            recover.release_owned(self.using, row.lock_owner)
            leases.remove_node(self.using, row)
            signals.node_stopped.send_robust(sender=ExecutorNode, using=self.using, node=row)
