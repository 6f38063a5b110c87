"""Moves due timers to the executable jobs, fires schedules, and delivers messages."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from jobexec import clock
from jobexec.operations.maintenance.timers import next_due_date, trigger_due_timers
from jobexec.operations.rows.bury_unreadable import UNREADABLE

from ...runtime.threads import SELDOM, Loop
from ..nodes.node import Node
from .messages import Messages
from .schedules import Schedules

_PAGE = 500


class TimerAcquisition(Loop):
    """Sleeps until the next timer of one engine is due (Flowable: AcquireTimerJobsRunnable, which polls)."""

    def __init__(self, node: Node, listening: Callable[[], bool]) -> None:
        super().__init__(f"jobexec-timers-{node.using}")
        self.node, self._listening = node, listening
        #: Schedules and messages need no separate thread.
        self.schedules, self.messages = Schedules(node), Messages(node, listening)

    def run_once(self) -> float:
        # Timers first: an error of the others comes after the timers have moved.
        return min(self._move_timers(), self.messages.deliver(), self.schedules.fire())

    def _move_timers(self) -> float:
        using, longest = self.node.using, self._longest()
        due = self._due()  # one statement and no transaction: nearly always there is nothing more to do
        if due is not None and due <= clock.now(using):
            if trigger_due_timers(using, _PAGE) == _PAGE:
                return 0.0
            due = next_due_date(using)
        if due is None:
            return longest
        # Never 0: a timer that another node is just moving is still there and due.
        return min(longest, max(0.01, (due - clock.now(using)).total_seconds()))

    def _due(self) -> datetime | None:
        """The next due date. An unreadable row counts as due: moving handles it, and others go on."""
        try:
            return next_due_date(self.node.using)
        except UNREADABLE:
            return clock.now(self.node.using)

    def _longest(self) -> float:
        # The heartbeat sees what a lost notification would have announced.
        return SELDOM if self._listening() else self.node.engine.max_wait.total_seconds()
