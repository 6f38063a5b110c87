"""One run: a server, gateways, executors, workers and people for some seconds, then rest, and what is left to judge."""

import json
import os
import random
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.chaos import nodes
from tests.chaos.journal import Journal, now
from tests.chaos.nodes import Node
from tests.support.machines import servers

from .mixture import Mixture
from .processes import Gateway, Worker, answers, free_ports

_TURN = 0.02
#: Seconds for all to come up, and for all to come to rest.
PATIENCE = 60.0
_LEASE = 3.0


@dataclass(frozen=True)
class Options:
    """What the command line says."""

    mixture: Mixture
    seconds: float = 20.0
    seed: int = 0
    database: str = "postgresql"
    broken: str = ""
    server: str | None = None


class Driver:
    """Call :meth:`play` in the main thread: processes and server end with the thread that started them."""

    def __init__(self, options: Options) -> None:
        self.options, self.mixture = options, options.mixture
        self.folder = Path(tempfile.mkdtemp(prefix="jobexec-chaos-outside-"))
        self.journal = Journal(self.folder / "journal", "driver")
        self._ports = free_ports(self.mixture.gateways)

    def play(self) -> Path:
        """Play the whole run; returns the folder with the journal and `state.json`."""
        self.journal.write("options", seed=self.options.seed, database=self.options.database)
        server = servers.make(self.options.database, self.folder, self.options.server)
        groups: tuple[list[Node], list[Node], list[Node]] = ([], [], [])
        healthy: list[Node] = []
        try:
            make = self._set_up(server)
            workers, gateways, executors = groups
            number = min(self.mixture.executors, 1 if self.options.database == "sqlite" else 99)
            executors += [make(Node, f"node{n}") for n in range(1, number + 1)]
            gateways += [make(Gateway, name) for name in self.mixture.gateways]
            workers += [make(Worker, name) for name in self.mixture.workers]
            healthy += [make(Worker, "healthy1")]
            self._play(groups, healthy, server)
            _end([*workers, *healthy])
            _end([*gateways, *executors])
            self._keep_state()
        finally:
            for node in [*groups[0], *groups[1], *groups[2], *healthy]:
                node.kill()
            self._close(server)
        return self.folder

    def _set_up(self, server: servers.Server) -> Callable[[type[Node], str], Node]:
        """Returns what makes a process of a kind and a name."""
        shared = json.dumps(
            {"database": server.database, "jobexec": _settings(), "folder": str(self.folder)}
            | {"seed": self.options.seed, "ports": self._ports, "mixture": asdict(self.mixture)},
            default=str,
        )
        settings = {"DJANGO_SETTINGS_MODULE": "tests.chaos.outside.settings"}
        os.environ |= {"JOBEXEC_CHAOS": shared, **settings}
        import django
        from django.core.management import call_command
        from django.db import connections

        django.setup()
        call_command("migrate", verbosity=0)
        from . import state

        state.make_tables()
        connections.close_all()
        environment = nodes.environment(shared, self.options.broken) | settings
        return lambda kind, name: kind(name, self.folder, self.journal, environment, False)

    def _play(
        self, groups: tuple[list[Node], list[Node], list[Node]], healthy: Sequence[Node], server: servers.Server
    ) -> None:
        from .faults import OutsideFaults
        from .people import People

        everybody = [*groups[0], *groups[1], *groups[2]]
        if not self._turns(everybody, PATIENCE, lambda: None, lambda: self._are_there(groups)):
            raise RuntimeError(f"Not all came up in {PATIENCE:.0f} s; their logs are in {self.folder}")
        people = People(self.mixture, self.options.seed, self.journal)
        faults = OutsideFaults(self.mixture, self.options.seed, self.journal, groups, server)
        self.journal.write("chaos")
        self._turns(everybody, self.options.seconds, _Acts(self.options, faults.turn, people.act))
        faults.make_good()
        _end(groups[0])
        if self.options.broken:  # what a broken guard has done is seen without the end
            return
        self.journal.write("rest")
        people.let_go(but="south")
        others = [*groups[1], *groups[2]]
        from . import state

        if not self._turns([*others, *healthy], PATIENCE, lambda: None, state.at_rest):
            self.journal.write("restless", seconds=PATIENCE)

    def _are_there(self, groups: tuple[list[Node], list[Node], list[Node]]) -> bool:
        from jobexec.models import ExecutorNode

        written = [path.name.split("-")[0] for path in (self.folder / "journal").glob("*.jsonl")]
        return (
            all(worker.name in written for worker in groups[0])
            and all(answers(port) for port in self._ports.values())
            and ExecutorNode.objects.count() >= len(groups[2])
        )

    def _turns(self, processes: Sequence[Node], seconds: float, act: Any, until: Any = None) -> bool:
        """Keep the processes up for so long, or until something holds; whether it does."""
        end, look = now() + seconds, 0.0
        while now() < end:
            for process in processes:
                process.keep()
            act()
            if until is not None and now() >= look:
                if until():
                    return True
                look = now() + 0.1
            time.sleep(_TURN)
        return False

    def _keep_state(self) -> None:
        from . import state

        (self.folder / "state.json").write_text(json.dumps(state.look(), default=str))

    def _close(self, server: servers.Server) -> None:
        from django.db import connections

        connections.close_all()
        server.close()


class _Acts:
    """What faults and people do in a turn."""

    def __init__(self, options: Options, befall: Callable[[], None], live: Callable[[], None]) -> None:
        self._befall, self._live = befall, live
        self._chance, self._every = random.Random(f"life {options.seed}"), options.mixture.every
        self._next = now()

    def __call__(self) -> None:
        self._befall()
        if now() >= self._next:
            self._live()
            self._next = now() + self._chance.expovariate(1 / self._every)


def _settings() -> dict[str, Any]:
    engine = {"LOCK_TIME": 2 * _LEASE, "WAIT_TIME": 0.05, "MAX_WAIT": 0.3, "MAX_WAIT_WHEN_LISTENING": 0.5}
    return {
        "GATEWAY_AUTH": "none",
        "LEASE_TIME": _LEASE,
        "HEARTBEAT_INTERVAL": _LEASE / 6,
        "RECOVERY_INTERVAL": _LEASE / 6,
        "GRACE_PERIOD": 10,
        "THREADS": 3,
        "HISTORY_LEVEL": "full",
        "CONFLICT_DELAY": 0.3,
        "ENGINES": {"default": engine},
    }


def _end(processes: Sequence[Node]) -> None:
    for process in processes:
        process.drain()
    for process in processes:
        process.end(30)
