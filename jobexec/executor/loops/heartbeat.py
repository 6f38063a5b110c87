"""Keeps the node's lease: first to start, last to stop."""

from __future__ import annotations

from jobexec.operations.sql.errors import one_line

from ...runtime.threads import Loop, call_in_thread, logger
from ..nodes.node import Node

_REGISTER, _LEAVE = 60.0, 10.0


class Heartbeat(Loop):
    """Renews the lease of one engine every HEARTBEAT_INTERVAL, and checks whether other loops have work."""

    keeps_connection = True  # connecting takes longer than the one statement

    def __init__(self, node: Node) -> None:
        super().__init__(f"jobexec-heartbeat-{node.using}")
        self.node = node
        self._interval = node.settings.heartbeat_interval.total_seconds()

    def start(self) -> None:
        """Register the node before anything else runs; raises whatever prevents the registration."""
        if not self.node.owner:
            call_in_thread("jobexec-register", self.node.register, _REGISTER)
        self.node.serve()
        super().start()

    def run_once(self) -> float:
        self.node.renew()
        return self._interval

    def abandon(self, timeout: float) -> None:
        """Stop renewing and keep the row: jobs that still run keep their locks until the lease ends."""
        super().stop(timeout)

    def stop(self, timeout: float) -> bool:
        """Release remaining jobs and delete the node's row; without a database, recovery will do it."""
        stopped = super().stop(timeout)
        try:
            call_in_thread("jobexec-leave", self.node.leave, _LEAVE)
        except Exception as error:
            text = "Could not deregister the node on %s (%s); its lease will expire"
            logger.warning(text, self.node.using, one_line(error))
        return stopped
