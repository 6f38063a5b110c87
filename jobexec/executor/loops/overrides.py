"""Applies the overriding priority of a job definition to newly created jobs."""

from __future__ import annotations

from datetime import datetime

from jobexec import clock
from jobexec.operations.manage.priority_overrides import apply_overrides
from jobexec.operations.sql.errors import is_conflict

from ...runtime.threads import logger
from ..nodes.node import Node

_EVERY = 1.0
#: A look takes at most one part in this many of the time: a tenth.
_SHARE = 10.0


class PriorityOverrides:
    """Looks every second for new jobs of one engine while a definition has an overriding priority.

    Every node does, without a leader. Without an override it need not look until a heartbeat sees one.
    """

    def __init__(self, node: Node) -> None:
        self.node = node
        self._seen: datetime | None = None

    def look(self) -> float | None:
        """Check once; return the seconds until the next check, None if nothing is overridden."""
        using, began = self.node.using, clock.monotonic()
        now = clock.now(using)
        try:
            changed = apply_overrides(using, self._seen)
        except Exception as error:
            if not is_conflict(error):
                raise
            return _EVERY  # another node is doing it; what is left will be found again
        # Without an override no table was read: the first look after that starts from the beginning.
        self._seen = None if changed is None else now
        if changed is None:
            return None
        if changed:
            logger.info("%d jobs on %s received the overriding priority of their definition", changed, using)
        return max(_EVERY, _SHARE * (clock.monotonic() - began))
