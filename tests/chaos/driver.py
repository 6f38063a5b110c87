"""One run: a server, nodes, people and faults for some seconds, then rest, and what is left to judge."""

import json
import os
import random
import tempfile
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from . import nodes as node_processes
from . import servers
from .journal import Journal, now
from .mixtures import AIMED, ALL_OF_IT, Mixture

_TURN = 0.02
_PATIENCE = 120.0


@dataclass(frozen=True)
class Options:
    """What the command line says."""

    nodes: int = 4
    seconds: float = 60.0
    seed: int = 0
    database: str = "postgresql"
    broken: str = ""
    server: str | None = None
    acquisition: str = "auto"
    lease: float | None = None

    @property
    def mixture(self) -> Mixture:
        mixture = AIMED[self.broken] if self.broken else ALL_OF_IT
        return replace(mixture, lease=self.lease) if self.lease else mixture


class Driver:
    """Call :meth:`play` in the main thread: nodes and server end with the thread that started them."""

    def __init__(self, options: Options) -> None:
        self.options, self.mixture = options, options.mixture
        self.folder = Path(tempfile.mkdtemp(prefix="jobexec-chaos-run-"))
        self.journal = Journal(self.folder / "journal", "driver")
        self._stop = threading.Event()
        self._errors: list[BaseException] = []

    def play(self) -> Path:
        """Play the whole run; returns the folder with the journal and `state.json`."""
        self.journal.write("options", **vars(self.options))
        self.journal.write("limits", tenants=dict(self.mixture.tenants))
        server = servers.make(self.options.database, self.folder, self.options.server)
        nodes: list[node_processes.Node] = []
        try:
            shared = self._set_up(server)
            environment = node_processes.environment(shared, self.options.broken)
            names = [f"n{number}" for number in range(1, self.options.nodes + 1)]
            shifts = self.mixture.shifts and self.options.database != "sqlite"  # whose time is that of the node
            nodes += [node_processes.Node(name, self.folder, self.journal, environment, shifts) for name in names]
            self._play(nodes, server)
            for node in nodes:
                node.kill()
            self._keep_state()
        finally:
            self._stop.set()
            for node in nodes:
                node.kill()
            self._close(server)
        return self.folder

    def _set_up(self, server: servers.Server) -> str:
        shared = json.dumps(
            {"database": server.database, "jobexec": self._settings(), "folder": str(self.folder)}, default=str
        )
        os.environ |= {"JOBEXEC_CHAOS": shared, "DJANGO_SETTINGS_MODULE": "tests.chaos.settings"}
        import django
        from django.core.management import call_command
        from django.db import connections

        django.setup()
        call_command("migrate", verbosity=0)
        from . import state

        state.make_tables()
        connections.close_all()  # the server may be restarted before this thread needs it again
        return shared

    def _settings(self) -> dict[str, Any]:
        lease = self.mixture.lease
        engine = {
            "LOCK_TIME": 2 * lease,
            "WAIT_TIME": 0.05,
            "MAX_WAIT": 0.3,
            "MAX_WAIT_WHEN_LISTENING": 0.5,
            "ACQUISITION": self.options.acquisition,
        }
        return {
            "LEASE_TIME": lease,
            "HEARTBEAT_INTERVAL": lease / 5,
            "RECOVERY_INTERVAL": lease / 6,
            "GRACE_PERIOD": 10,
            "THREADS": self.mixture.threads,
            "QUEUE_SIZE": 12,
            "MAX_STUCK_THREADS": 100,
            "HISTORY_LEVEL": "full",
            "HISTORY_JOB_RETRIES": 3,
            "HISTORY_JOB_WAIT": 0.3,
            "BATCH_POLL_TIME": 0.2,
            "INVOCATIONS_PER_BATCH_JOB": 7,
            "BATCH_JOBS_PER_SEED": 3,
            "METER_INTERVAL": 1,
            "TENANT_CONCURRENCY": dict(self.mixture.tenants) or None,
            "DEFAULT_RETRY_PLAN": "R3/PT0.3S",
            "CONFLICT_DELAY": 0.3,
            "ENGINES": {"default": engine},
        }

    def _play(self, nodes: list[node_processes.Node], server: servers.Server) -> None:
        from .faults import Faults
        from .people import People

        self._turns(nodes, _PATIENCE, lambda: None, lambda: _are_there(len(nodes)))
        killers_until = now() + 0.6 * self.options.seconds
        people = People(self.mixture, self.options.seed, self.journal, killers_until)
        faults = Faults(self.mixture, self.options.seed, self.journal, nodes, server)
        thread = threading.Thread(target=lambda: self._live(people), daemon=True, name="people")
        thread.start()
        self.journal.write("chaos")
        self._turns(nodes, self.options.seconds, faults.turn)
        self._stop.set()
        faults.make_good()
        thread.join(60)
        if self._errors:
            raise self._errors[0]
        if self.options.broken:
            return  # what a broken guard has done is seen without the end
        self.journal.write("rest")
        people.let_go(but="south")
        if not self._turns(nodes, _PATIENCE, lambda: None, _Rest(self.mixture.lease)):
            self.journal.write("restless", seconds=_PATIENCE)
        for node in nodes:
            node.drain()
        for node in nodes:
            node.end(30)

    def _turns(self, nodes: list[node_processes.Node], seconds: float, act: Any, until: Any = None) -> bool:
        """Keep the nodes up for so long, or until something holds; whether it does."""
        end, look = now() + seconds, 0.0
        while now() < end and not self._errors:
            for node in nodes:
                node.keep()
            act()
            if until is not None and now() >= look:
                if until():
                    return True
                look = now() + 0.2
            time.sleep(_TURN)
        return False

    def _live(self, people: Any) -> None:
        """The life of people, in a thread of theirs."""
        chance = random.Random(f"life {self.options.seed}")
        interfere = now() + 1
        try:
            while not self._stop.wait(chance.expovariate(1 / self.mixture.every)):
                people.enqueue()
                if self.mixture.people and now() >= interfere:
                    people.interfere()
                    interfere = now() + chance.expovariate(1 / 0.4)
        except BaseException as error:
            self._errors.append(error)
        finally:
            from django.db import connections

            connections.close_all()

    def _keep_state(self) -> None:
        from . import state

        (self.folder / "state.json").write_text(json.dumps(state.look(), default=str))

    def _close(self, server: servers.Server) -> None:
        from django.db import connections

        connections.close_all()
        server.close()


def _are_there(count: int) -> bool:
    from jobexec.models import ExecutorNode

    return ExecutorNode.objects.count() >= count


class _Rest:
    """Whether the cluster has been at rest for longer than its nodes take to say what they do."""

    def __init__(self, lease: float) -> None:
        self._lease, self._since = lease, now()

    def __call__(self) -> bool:
        from . import state

        if not state.at_rest():
            self._since = now()
        return now() - self._since > self._lease / 2
