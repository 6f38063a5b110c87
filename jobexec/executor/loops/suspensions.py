"""Moves jobs when suspensions begin and end, and applies overriding priorities."""

from __future__ import annotations

from jobexec import clock
from jobexec.operations.manage.suspension_sweep import next_suspension_date, sweep_suspensions
from jobexec.operations.sql.errors import is_conflict

from ...runtime.threads import Loop, logger, own_interval
from ..nodes.node import Node
from .overrides import PriorityOverrides

_SHORTLY = 0.1


class SuspensionSweep(Loop):
    """Sleeps until the next suspension of one engine begins or ends; every node does, without a leader.

    A separate loop, because a sweep over a million jobs must delay neither timers nor recovery. A date set while it
    sleeps is noticed within RECOVERY_INTERVAL, by the heartbeat if that comes as often; suspended jobs do not run even
    before that. It also applies overriding priorities, which so need no connection of their own.
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
            return _SHORTLY  # another node is doing it; what is left will be found again
        if moved:
            logger.info("%d jobs on %s moved, because suspensions began or ended", moved, using)
        date = next_suspension_date(using)
        if date is None:
            return self._interval
        wait = (date - clock.now(using)).total_seconds()
        return min(self._interval, wait) if wait > 0 else _SHORTLY  # another node may be doing it right now
