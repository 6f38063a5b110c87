"""Runs history jobs (Flowable: its asynchronous history executor)."""

from __future__ import annotations

import contextvars

from jobexec import clock
from jobexec.exceptions import HandlerNotFound
from jobexec.handlers.registry import get_history_handler
from jobexec.operations.maintenance.history_jobs import HistoryRecord, next_history_date, write_history
from jobexec.operations.rows.bury_unreadable import UNREADABLE
from jobexec.operations.values.failure import Failure

from ...runtime.threads import Loop, own_interval
from ..nodes.node import Node
from ..run.execution import failure_of

_PAGE = 100
#: Seconds until the next check at due jobs: after a page with some rows, and after one that other nodes hold.
_SHORTLY, _ELSEWHERE = 0.01, 0.5


class HistoryWriting(Loop):
    """Passes due history jobs of one engine to the history handlers, page by page; all nodes do so at the same time.

    Sleeps until the next one is due. Woken up by notifications of the commit, if there are any, and by the heartbeat.
    """

    def __init__(self, node: Node) -> None:
        super().__init__(f"jobexec-history-{node.using}")
        self.node, self.node_name = node, node.settings.node_name
        self._longest = own_interval(node.settings)

    def run_once(self) -> float:
        using = self.node.using
        wait = self._until_next()  # one statement and no transaction: nearly always there is nothing more to do
        if wait > 0:
            return wait
        with self.node.writing:
            count = write_history(using, _PAGE, self)
        if count == _PAGE:
            return 0.0
        # Never 0 after an empty page: jobs that another node is just writing are still there and due.
        return max(_SHORTLY if count else _ELSEWHERE, self._until_next())

    def _until_next(self) -> float:
        using = self.node.using
        try:
            due = next_history_date(using)
        except UNREADABLE:
            return 0.0  # taking the page handles it
        if due is None:
            return self._longest
        return min(self._longest, max(0.0, (due - clock.now(using)).total_seconds()))

    # Called by write_history() (Writer).

    def write(self, handler_type: str, records: list[HistoryRecord]) -> None:
        """In a fresh context: no handler sees the time zone, language and context variables of another."""
        contextvars.Context().run(get_history_handler(handler_type).function, records)

    def failure_of(self, handler_type: str, error: BaseException) -> Failure:
        try:
            handler = get_history_handler(handler_type)
        except HandlerNotFound:
            handler = None
        return failure_of(error, self.node.using, handler)
