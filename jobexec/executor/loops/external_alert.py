"""Logs which job types have no external worker."""

from __future__ import annotations

from jobexec import clock
from jobexec.operations.reports.unserved_types import types_without_worker
from jobexec.operations.sql.errors import one_line

from ...runtime.threads import logger
from ..nodes.node import Node

#: The longest time between two looks, in seconds.
_SELDOM = 300.0


class ExternalAlert:
    """Checks rarely, and first after EXTERNAL_WORKER_ALERT_AFTER, since workers may start at the same time.

    A type is logged once, and again after a worker has polled for it in between. Every node checks and logs.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self._after = node.settings.external_worker_alert_after
        self._next = clock.monotonic() + self._after.total_seconds()
        self._told: set[str] = set()

    def look(self) -> None:
        """Log new types, if a check is due."""
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
