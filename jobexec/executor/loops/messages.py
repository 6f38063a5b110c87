"""Delivers the messages of one engine; called by the loop of the timers."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from jobexec import clock
from jobexec.operations.messages.deliver import deliver, next_delivery
from jobexec.operations.rows.bury_unreadable import UNREADABLE

from ...runtime.threads import SELDOM
from ..nodes.node import Node

#: The most jobs of a round, because the timers wait meanwhile.
_PAGE = 500


class Messages:
    """Remembers when a message, or a job that waits for one, is to be looked at next, and queries the database only
    when that may have changed: as :class:`~jobexec.executor.loops.schedules.Schedules` does.

    Without notifications it queries the database each time, and soon again after there was something to do.
    """

    def __init__(self, node: Node, listening: Callable[[], bool]) -> None:
        self.node, self._listening = node, listening
        self._asked = True
        self._next: datetime | None = None
        self._patience = node.engine.max_wait.total_seconds()

    def ask(self) -> None:
        """Let the next round query the database; from any thread."""
        self._asked = True

    def deliver(self) -> float:
        """Do what is due; returns the seconds until the next time."""
        if self._asked or not self._listening():
            self._read()
        if self._left() > 0:
            self._patience *= self.node.engine.wait_increase_factor
            return self._wait()
        self._asked, self._patience = True, self.node.engine.wait_time.total_seconds()
        with self.node.writing:
            done = deliver(self.node.using, _PAGE)
        if done.more:
            return 0.0
        self._read()
        # Never 0: what another node is just handling is still there and due.
        return max(0.01, self._wait())

    def _read(self) -> None:
        self._asked = False  # before the look: changes during it ask again
        try:
            self._next = next_delivery(self.node.using)
        except UNREADABLE:
            self._next = clock.now(self.node.using)  # delivering handles it
        except BaseException:
            self._asked = True
            raise

    def _left(self) -> float:
        return SELDOM if self._next is None else (self._next - clock.now(self.node.using)).total_seconds()

    def _wait(self) -> float:
        # The heartbeat sees what a lost notification would have announced.
        self._patience = min(self._patience, self.node.engine.max_wait.total_seconds())
        return max(0.0, min(self._left(), SELDOM if self._listening() else self._patience))
