"""Says in the log which types of job have no worker outside."""

from __future__ import annotations

from jobexec import clock
from jobexec.operations.reports.unserved_types import types_without_worker
from jobexec.operations.sql.errors import one_line

from ...runtime.threads import logger
from ..nodes.node import Node

#: Seconds between two looks at the most.
_SELDOM = 300.0


class ExternalAlert:
    """Looks seldom, first when EXTERNAL_WORKER_ALERT_AFTER has passed: after a start of everything workers come, too.

    A type is told once, and again when a worker has come meanwhile. It is every node that looks and tells.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self._after = node.settings.external_worker_alert_after
        self._next = clock.monotonic() + self._after.total_seconds()
        self._told: set[str] = set()

    def look(self) -> None:
        """Warn of what is new, if it is time to look."""
        if clock.monotonic() < self._next:
            return
        self._next = clock.monotonic() + min(self._after.total_seconds(), _SELDOM)
        using = self._node.using
        found = {each.type: each for each in types_without_worker(using, self._after)}
        for type, each in found.items():
            if type not in self._told:
                since = each.waiting_since.isoformat(timespec="seconds")
                text = "Jobs of type %s on %s have waited since %s, and no worker polls for them"
                logger.warning(text, one_line(type), using, since)
        self._told = set(found)
