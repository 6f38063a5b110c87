"""One run: a server, nodes, people and faults for some seconds, then rest, and what is left to judge."""

import json
import os
import random
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.support.machines import servers

from . import nodes as node_processes
from .journal import Journal, now
from .mixtures import AIMED, ALL_OF_IT, RESOURCES, Mixture
from .timetable import THRESHOLD, Timetable

_TURN = 0.02
#: Seconds without a job that succeeds after which nobody waits for rest any more, and for how long at most. On SQLite
#: an atomic job keeps all others from writing: what has gathered takes as long as all atomic jobs together.
_PATIENCE, _LONGEST = 120.0, 480.0


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
        self._timetable = Timetable(self.journal)
        self._stop = threading.Event()
        self._errors: list[BaseException] = []

    def play(self) -> Path:
        """Play the whole run; returns the folder with the journal and `state.json`."""
        self.journal.write("options", **vars(self.options))
        self.journal.write("limits", tenants=dict(self.mixture.tenants), resources=RESOURCES)
        server = servers.make(self.options.database, self.folder, self.options.server)
        nodes: list[node_processes.Node] = []
        callers: list[node_processes.Caller] = []
        try:
            shared = self._set_up(server)
            environment = node_processes.environment(shared, self.options.broken)
            names = [f"n{number}" for number in range(1, self.options.nodes + 1)]
            shifts = self.mixture.shifts and self.options.database != "sqlite"  # whose time is that of the node
            nodes += [node_processes.Node(name, self.folder, self.journal, environment, shifts) for name in names]
            names = [f"c{number}" for number in range(1, self.mixture.callers + 1)]
            callers += [node_processes.Caller(name, self.folder, self.journal, environment, False) for name in names]
            self._play(nodes, callers, server)
            for node in nodes:
                node.kill()
            self._keep_state()
        finally:
            self._stop.set()
            for node in [*nodes, *callers]:
                node.kill()
            self._close(server)
        return self.folder

    def _set_up(self, server: servers.Server) -> str:
        shared = json.dumps(
            {"database": server.database, "jobexec": self._settings(), "folder": str(self.folder)}
            | {"seed": self.options.seed},
            default=str,
        )
        os.environ |= {"JOBEXEC_CHAOS": shared, "DJANGO_SETTINGS_MODULE": "tests.chaos.settings"}
        import django
        from django.core.management import call_command
        from django.db import connections

        django.setup()
        call_command("migrate", verbosity=0)
        from . import instrument, state
        from .processes import flows

        state.make_tables()
        instrument.tell_schedules(self.journal)
        if self.mixture.schedules:
            self._timetable.save()
        if self.mixture.processes:
            flows.deploy("default")
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
            "MISFIRE_THRESHOLD": THRESHOLD,
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
            "RESOURCES": RESOURCES,
            "DEFAULT_RETRY_PLAN": "R3/PT0.3S",
            "CONFLICT_DELAY": 0.3,
            "ENGINES": {"default": engine},
        }

    def _play(
        self, nodes: list[node_processes.Node], callers: list[node_processes.Caller], server: servers.Server
    ) -> None:
        from .faults import Faults
        from .people.everybody import People

        self._turns([*nodes, *callers], _PATIENCE, lambda: None, lambda: self._are_there(len(nodes), len(callers)))
        killers_until = now() + 0.6 * self.options.seconds
        people = People(self.mixture, self.options.seed, self.journal, killers_until)
        faults = Faults(self.mixture, self.options.seed, self.journal, nodes, callers, server)
        thread = threading.Thread(target=lambda: self._live(people), daemon=True, name="people")
        thread.start()
        self.journal.write("chaos")
        self._turns([*nodes, *callers], self.options.seconds, faults.turn)
        self._stop.set()
        faults.make_good()
        _end(callers)
        thread.join(60)
        if self._errors:
            raise self._errors[0]
        if not self.options.broken:  # what a broken guard has done is seen without the end
            self._come_to_rest(nodes, people)

    def _are_there(self, nodes: int, callers: int) -> bool:
        from jobexec.models import ExecutorNode

        journals = list((self.folder / "journal").glob("c[0-9]*.jsonl"))
        return len(journals) >= callers and ExecutorNode.objects.count() >= nodes

    def _come_to_rest(self, nodes: list[node_processes.Node], people: Any) -> None:
        self.journal.write("rest")
        if self.mixture.schedules:
            self._wait(nodes, self._timetable.caught_up)
            self._timetable.stop()
        people.let_go(but="south")
        self._wait(nodes, _Rest(self.mixture.lease))
        _end(nodes)

    def _wait(self, nodes: list[node_processes.Node], until: Any) -> None:
        from .state.rest import successes

        since, before = now(), -1
        while not self._turns(nodes, _PATIENCE, lambda: None, until):
            done = successes()
            if done == before or now() - since > _LONGEST:
                self.journal.write("restless", seconds=round(now() - since), last=done - before)
                return
            before = done

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
        from django.db import connections

        from . import state

        connections.close_all()  # the server may have been restarted since
        (self.folder / "state.json").write_text(json.dumps(state.look(), default=str))

    def _close(self, server: servers.Server) -> None:
        from django.db import connections

        connections.close_all()
        server.close()


def _end(processes: Sequence[node_processes.Node]) -> None:
    for process in processes:
        process.drain()
    for process in processes:
        process.end(30)


class _Rest:
    """Whether the cluster has been at rest for longer than its nodes take to say what they do."""

    def __init__(self, lease: float) -> None:
        self._lease, self._since = lease, now()

    def __call__(self) -> bool:
        from .state.rest import at_rest

        if not at_rest():
            self._since = now()
        return now() - self._since > self._lease / 2
