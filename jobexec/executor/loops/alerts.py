"""Tells the targets in DEAD_LETTER_ALERTS of new dead letters."""

from __future__ import annotations

from jobexec.operations.maintenance.dead_letter_alerts import alert_dead_letters

from ...runtime.threads import Loop
from ..nodes.node import Node

#: Seconds between two looks.
INTERVAL = 10.0


class DeadLetterAlerts(Loop):
    """Enqueues the alerts that are due; every node looks, and for each target one of them tells."""

    def __init__(self, node: Node) -> None:
        super().__init__(f"jobexec-alerts-{node.using}")
        self.node = node

    def run_once(self) -> float:
        if self.node.good:
            with self.node.writing:
                alert_dead_letters(self.node.using)
        return INTERVAL
