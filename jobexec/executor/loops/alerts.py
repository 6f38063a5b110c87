"""Sends alerts about new dead letters to the targets in DEAD_LETTER_ALERTS."""

from __future__ import annotations

from jobexec import clock
from jobexec.operations.maintenance.dead_letter_alerts import alert_dead_letters

from ...runtime.threads import Loop
from ..nodes.node import Node

#: Seconds between two rounds, and at least how many times as long as a round that is.
INTERVAL, SHARE = 10.0, 20


class DeadLetterAlerts(Loop):
    """Enqueues the alerts that are due; every node checks, and for each target one of them enqueues the alert."""

    def __init__(self, node: Node) -> None:
        super().__init__(f"jobexec-alerts-{node.using}")
        self.node = node

    def run_once(self) -> float:
        began = clock.monotonic()
        if self.node.good:
            with self.node.writing:
                alert_dead_letters(self.node.using)
        # While very many dead letters wait for the end of an interval, each round reads past them.
        return max(INTERVAL, SHARE * (clock.monotonic() - began))
