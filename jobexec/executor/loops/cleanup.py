"""Deletes expired history."""

from __future__ import annotations

from jobexec import clock
from jobexec.operations.maintenance.cleanup import Cleanup
from jobexec.operations.maintenance.cleanup_window import seconds_until_open

from ...runtime.threads import Loop, logger
from ..nodes.node import Node

#: Seconds: after the start of an executor, after a cleanup that found something, while another node runs one, and after
#: one that found nothing.
FIRST, AGAIN, ELSEWHERE, SELDOM = 60.0, 60.0, 300.0, 3600.0


class HistoryCleanup(Loop):
    """Deletes the expired history of one engine, on one node at a time and only within HISTORY_CLEANUP_WINDOW.

    After each transaction it waits as long as that took, so that it never takes more than half of the time.
    """

    def __init__(self, node: Node) -> None:
        super().__init__(f"jobexec-cleanup-{node.using}")
        self.node = node
        self._window = node.settings.history_cleanup_window
        self._next = 0.0
        self._cleanup: Cleanup | None = None
        self._deleted = 0

    def start(self) -> None:
        self._next, self._cleanup = clock.monotonic() + FIRST, None
        super().start()

    def run_once(self) -> float:
        left = self._next - clock.monotonic()
        if left > 0:
            return left
        closed = seconds_until_open(self._window, clock.now(self.node.using))
        if closed:
            self._end()
            return min(closed, SELDOM)
        cleanup = self._current()
        if cleanup is None:
            return self._sleep(ELSEWHERE)
        began = clock.monotonic()
        try:
            with self.node.writing:
                deleted = cleanup.step()
        except BaseException:
            self._cleanup = None  # the lock is still ours, and the next round takes it again
            raise
        if deleted is not None:
            self._deleted += deleted
            return clock.monotonic() - began
        return self._sleep(AGAIN if self._end() else SELDOM)

    def _current(self) -> Cleanup | None:
        """The cleanup under way, or a new one; None if another node runs one, or this node's lease is not valid."""
        owner = self.node.owner
        if self._cleanup is None or self._cleanup.owner != owner:
            self._deleted = 0
            self._cleanup = Cleanup.begin(self.node.using, owner) if self.node.good else None
        return self._cleanup

    def _end(self) -> int:
        """End it for now; returns how many rows were deleted."""
        cleanup, self._cleanup = self._cleanup, None
        if cleanup is None:
            return 0
        cleanup.end()
        if self._deleted:
            logger.info("Deleted %d expired history rows on %s", self._deleted, self.node.using)
        return self._deleted

    def _sleep(self, seconds: float) -> float:
        self._next = clock.monotonic() + seconds
        return seconds
