"""Fires the schedules of one engine; called by the loop of the timers."""

from __future__ import annotations

import logging
from datetime import datetime

from jobexec import clock
from jobexec.operations.schedules.firing import Fired, fire_due, next_schedule_time
from jobexec.operations.schedules.jobs import scheduled_jobs
from jobexec.operations.schedules.sync import EVERY
from jobexec.operations.sql.errors import is_conflict, one_line

from ...runtime.threads import SELDOM
from ..nodes.node import Node

logger = logging.getLogger("jobexec.schedules")

#: Schedules in one round: few, because the timers wait meanwhile.
_PAGE = 25
#: Seconds after which a schedule that could not be fired is tried again. Other nodes may be able to.
_AGAIN = 60.0
#: The same for one that conflicted with another transaction's lock.
_SHORTLY = 5.0


class Schedules:
    """Remembers when the next schedule of an engine is due, and queries the database only when that may have changed.

    That is at the start, after a round of its own, and after :meth:`ask`: called for a notification, or by the
    heartbeat, which sees what notifications missed.
    """

    def __init__(self, node: Node) -> None:
        self.node = node
        self._asked = True
        self._next: datetime | None = None
        self._declare_at: float | None = None
        #: Schedules that could not be fired: skipped until this time of the monotonic clock, and their logged errors.
        self._aside: dict[int, float] = {}
        self._said: dict[int, str] = {}

    def ask(self) -> None:
        """Let the next round query the database; from any thread."""
        self._asked = True

    def fire(self) -> float:
        """Fire due schedules; returns the seconds until the next one."""
        self._forgive()
        declaring = self._declare()
        if self._asked:
            self._read()
        left = self._left()
        if left > 0:
            return min(left, self._until_forgiven(), declaring)
        self._asked = True
        fired = fire_due(self.node.using, scheduled_jobs(), _PAGE, but=self._aside)
        self._set_aside(fired)
        if fired.more:
            return 0.0
        self._read()
        # Never 0: a schedule that another node is just firing is still there and due.
        return min(max(0.01, self._left()), self._until_forgiven(), declaring)

    def _declare(self) -> float:
        """Write the code's declarations again, for nodes of another release; returns seconds until the next time."""
        now = clock.monotonic()
        if not self.node.declares:
            return SELDOM
        if self._declare_at is None:  # the node has just done so, at its start
            self._declare_at = now + EVERY.total_seconds()
        elif now >= self._declare_at:
            self._declare_at = now + EVERY.total_seconds()  # first: a failure also waits for the next time
            self.node.declare_schedules()
        return self._declare_at - now

    def _read(self) -> None:
        self._asked = False  # before the look: changes during it ask again
        try:
            self._next = next_schedule_time(self.node.using, scheduled_jobs(), but=self._aside)
        except BaseException:
            self._asked = True
            raise

    def _left(self) -> float:
        return SELDOM if self._next is None else (self._next - clock.now(self.node.using)).total_seconds()

    def _forgive(self) -> None:
        over = [id for id, until in self._aside.items() if until <= clock.monotonic()]
        for id in over:
            del self._aside[id]
            self._asked = True

    def _until_forgiven(self) -> float:
        return max(0.01, min(self._aside.values(), default=clock.monotonic() + SELDOM) - clock.monotonic())

    def _set_aside(self, fired: Fired) -> None:
        for id, error in fired.failed.items():
            self._aside[id] = clock.monotonic() + (_SHORTLY if is_conflict(error) else _AGAIN)
            said = repr(error)
            if self._said.get(id) != said:  # once, and not every minute
                self._said[id] = said
                text = "The schedule with the id %s on %s cannot be fired by this node; it stays due: %s"
                logger.error(text, id, self.node.using, one_line(said), exc_info=error)
