"""Finds dead nodes and makes their jobs acquirable again."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from jobexec import clock
from jobexec.models import AbstractJob, Job
from jobexec.operations.nodes.leases import declare_dead, declared_dead
from jobexec.operations.rows.progress import clear_old_progress
from jobexec.operations.settle.recover import recover_expired_locks, recover_node
from jobexec.operations.values.acquired_job import AcquiredJob
from jobexec.operations.values.failure import Failure
from jobexec.operations.values.run import Run

from ...runtime.threads import Loop, logger, own_interval
from ..nodes.node import Node
from ..run.outcomes import Outcome
from .external_alert import ExternalAlert


class Recovery(Loop):
    """Looks for nodes of one engine whose lease has expired; every node does, without a leader.

    Woken up by the heartbeat, which sees them first if it comes as often. A node that was itself cut off from the
    database leaves the others alone for the duration of a lease
    (:class:`~jobexec.executor.nodes.lease_judgement.LeaseJudgement`). The loop also runs the alert for missing external
    workers, which so needs no connection of its own.
    """

    def __init__(self, node: Node, recovered: Callable[[], None]) -> None:
        super().__init__(f"jobexec-recovery-{node.using}")
        self.node, self._recovered = node, recovered
        self._interval = own_interval(node.settings)
        self._next_look_at_locks = 0.0
        self._alert = ExternalAlert(node)

    def run_once(self) -> float:
        using, released = self.node.using, 0
        dead_nodes = declare_dead(using, but=self.node.owner) if self.node.may_judge else declared_dead(using)
        for dead in dead_nodes:
            if dead.lock_owner == self.node.owner:
                continue  # declared by another node: after the heartbeat's new boot this is no longer our own row
            count = recover_node(using, dead, self._charged)
            logger.warning("Node %s died with %d jobs on %s; they are released", dead.lock_owner, count, using)
            released += count
        released += self._expired_locks()
        if released:
            self.node.meters.recovered(released)
            self._recovered()
        self._alert.look()
        return self._interval

    def _expired_locks(self) -> int:
        # Scans the whole executable table, because no index may contain a lock column: no more often than locks expire.
        if clock.monotonic() < self._next_look_at_locks:
            return 0
        self._next_look_at_locks = clock.monotonic() + self.node.engine.lock_time.total_seconds()
        clear_old_progress(self.node.using)
        return recover_expired_locks(self.node.using, self._charged)

    def _charged(self, row: Job, failure: Failure, run: Run, became: type[AbstractJob]) -> None:
        outcome = Outcome(cast(AcquiredJob, row), run, failure)  # the row has the attributes that are counted
        outcome.counted, outcome.became = True, became
        self.node.meters.ended([outcome])
