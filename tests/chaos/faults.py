"""What befalls the nodes and the server: a chance that the seed decides, and what must be made good later."""

import heapq
import itertools
import random
from collections.abc import Callable

from tests.support.machines.servers import Server

from .journal import Journal, now
from .mixtures import Mixture
from .nodes import Caller, Node
from .state.rest import in_hand

_FOR_EVER = float("inf")


class Faults:
    def __init__(
        self,
        mixture: Mixture,
        seed: int,
        journal: Journal,
        nodes: list[Node],
        callers: list[Caller],
        server: Server,
    ) -> None:
        self._callers = callers
        self._mixture, self._journal, self._nodes, self._server = mixture, journal, nodes, server
        self._chance = random.Random(f"faults {seed}")
        self._later: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._down = False
        self._deeds: dict[str, Callable[[], None]] = {
            "kill": self._kill,
            "pause": self._pause_short,
            "pause-long": self._pause_long,
            "drain": self._drain,
            "server": self._crash,
            "kill-caller": self._kill_caller,
        }
        weights = {fault: weight for fault, weight in mixture.faults.items() if fault != "server" or server.ways}
        self._weights = weights
        self._next = now() + min(1.5, self._pause()) if weights else _FOR_EVER

    def _pause(self) -> float:
        mean = self._mixture.pause
        return mean if self._mixture.steady else self._chance.expovariate(1 / mean)

    def turn(self) -> None:
        """Do what is due."""
        while self._later and self._later[0][0] <= now():
            heapq.heappop(self._later)[2]()
        if now() >= self._next:
            self._next = now() + self._pause()
            self._deeds[self._chance.choices(list(self._weights), list(self._weights.values()))[0]]()

    def make_good(self) -> None:
        """Resume and start again what was stopped, at once."""
        while self._later:
            heapq.heappop(self._later)[2]()

    def _after(self, seconds: float, deed: Callable[[], None]) -> None:
        heapq.heappush(self._later, (now() + seconds, next(self._numbers), deed))

    def _one(self) -> Node | None:
        running = [node for node in self._nodes if node.running]
        if running and self._mixture.steady:  # aimed: where it hurts
            held = in_hand()
            return max(running, key=lambda node: held.get(node.name, 0))
        return self._chance.choice(running) if running else None

    def _kill(self) -> None:
        if node := self._one():
            node.kill()

    def _kill_caller(self) -> None:
        if self._callers:
            self._chance.choice(self._callers).kill()

    def _drain(self) -> None:
        if node := self._one():
            node.drain()

    def _pause_for(self, seconds: float) -> None:
        if node := self._one():
            node.pause()
            self._after(seconds, node.resume)

    def _pause_short(self) -> None:
        self._pause_for(self._chance.uniform(0.1, 0.8) * self._mixture.lease)

    def _pause_long(self) -> None:
        self._pause_for(self._chance.uniform(1.5, 2.3) * self._mixture.lease)

    def _crash(self) -> None:
        if self._down:
            return
        how = self._chance.choice(sorted(self._server.ways))
        away = self._chance.choice(self._mixture.away) * self._mixture.lease
        self._down = True
        self._journal.write("server-down", how=how, away=away)
        self._server.crash(how)
        self._after(away, self._start_server)

    def _start_server(self) -> None:
        self._server.start()
        self._journal.write("server-up")
        self._down = False
