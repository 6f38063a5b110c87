"""Brings to jobs what was said of many: moves them when suspensions begin and end, and sets overriding priorities."""

from __future__ import annotations

from jobexec import clock
from jobexec.operations.manage.suspension_sweep import next_suspension_date, sweep_suspensions
from jobexec.operations.sql.errors import is_conflict

from ...runtime.threads import Loop, logger, own_interval
from ..nodes.node import Node
from .overrides import PriorityOverrides

_SHORTLY = 0.1


class SuspensionSweep(Loop):
    """Sleeps until the next suspension of one engine begins or ends; every node does, and none needs to be the leader.

    A loop of its own, because a sweep over a million jobs must delay neither timers nor recovery. A date that somebody
    sets while it sleeps is noticed within RECOVERY_INTERVAL, by the heartbeat if that comes as often; what is suspended
    does not run even before that. It sees to overriding priorities, too, so that this takes no connection of its own.
    """

    def __init__(self, node: Node) -> None:
        super().__init__(f"jobexec-suspensions-{node.using}")
        self.node = node
        self.overrides = PriorityOverrides(node)
        self._interval = own_interval(node.settings)

    def run_once(self) -> float:
        again = self.overrides.look()
        wait = self._sweep()
        return wait if again is None else min(wait, again)

    def _sweep(self) -> float:
        using = self.node.using
        try:
            moved = sweep_suspensions(using)
        except Exception as error:
            if not is_conflict(error):
                raise
            return _SHORTLY  # another node is at it; what is left to do will be found again
        if moved:
            logger.info("%d jobs on %s moved, because suspensions began or ended", moved, using)
        date = next_suspension_date(using)
        if date is None:
            return self._interval
        wait = (date - clock.now(using)).total_seconds()
        return min(self._interval, wait) if wait > 0 else _SHORTLY  # another node is perhaps just at it
