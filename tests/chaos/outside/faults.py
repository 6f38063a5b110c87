"""What befalls workers, gateways, executors and the server."""

from collections.abc import Callable, Sequence

from tests.chaos import mixtures
from tests.chaos.faults import Faults
from tests.chaos.journal import Journal
from tests.chaos.nodes import Node
from tests.support.machines.servers import Server

from .mixture import Mixture

#: Seconds for which a worker is paused: within and beyond what it may take.
_PAUSES = (0.2, 2.5)


class OutsideFaults(Faults):
    """The same chance and the same clock as where there are only executors; other deeds."""

    def __init__(
        self,
        mixture: Mixture,
        seed: int,
        journal: Journal,
        groups: tuple[Sequence[Node], Sequence[Node], Sequence[Node]],
        server: Server,
    ) -> None:
        """``groups`` are the workers, the gateways, and the executors."""
        workers, gateways, executors = groups
        there = {"worker": workers, "gateway": gateways, "executor": executors, "server": [server]}
        weights = {fault: weight for fault, weight in mixture.faults.items() if there[fault.split("-")[-1]]}
        of_nodes = mixtures.Mixture(faults=weights, pause=mixture.pause)
        super().__init__(of_nodes, seed, journal, [*workers, *gateways, *executors], [], server)
        self._deeds: dict[str, Callable[[], None]] = {
            "kill-worker": lambda: self._on(workers, Node.kill),
            "pause-worker": lambda: self._on(workers, self._pause_worker),
            "kill-gateway": lambda: self._on(gateways, Node.kill),
            "drain-gateway": lambda: self._on(gateways, Node.drain),
            "kill-executor": lambda: self._on(executors, Node.kill),
            "drain-executor": lambda: self._on(executors, Node.drain),
            "server": self._crash,
        }

    def _on(self, group: Sequence[Node], deed: Callable[[Node], None]) -> None:
        running = [node for node in group if node.running]
        if running:
            deed(self._chance.choice(running))

    def _pause_worker(self, worker: Node) -> None:
        worker.pause()
        self._after(self._chance.uniform(*_PAUSES), worker.resume)
