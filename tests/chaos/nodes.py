"""The nodes: real executors in processes of their own, which can be killed, paused, drained, and are started again."""

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

from tests.support.machines.servers import end_with_parent

from .journal import Journal, now

_RESTART = 0.3


class Node:
    """One place in the cluster: the name stays, the processes come and go."""

    #: What its processes run, after the name of the interpreter.
    command: tuple[str, ...] = ("-m", "django", "runjobexecutor", "--node")

    def __init__(self, name: str, folder: Path, journal: Journal, environment: dict[str, str], shifts: bool) -> None:
        self.name, self._journal = name, journal
        self._environment = environment | self.says(name)
        self._log = folder / f"{name}.log"
        self._chance = random.Random(name) if shifts else None
        self._process: subprocess.Popen[bytes] | None = None
        self._start_at = 0.0
        self.paused = self._draining = False

    def says(self, name: str) -> dict[str, str]:
        """What its processes find in their environment beside what is shared."""
        return {"JOBEXEC_CHAOS_NODE": name}

    @property
    def alive(self) -> bool:
        return self._process is not None

    @property
    def running(self) -> bool:
        """It is there and nobody has stopped or paused it."""
        return self.alive and not self.paused

    def keep(self) -> None:
        """Notice its end, and start it again a moment later."""
        if self._process is not None and (code := self._process.poll()) is not None:
            self._journal.write("exit", node=self.name, of=self._process.pid, code=code)
            self._process, self._start_at = None, now() + _RESTART
            self.paused = self._draining = False
        if self._process is None and now() >= self._start_at:
            self._start()

    def _start(self) -> None:
        shift = self._chance.choice([0, 0, -7200, -30, 5, 3600]) if self._chance else 0
        command = [sys.executable, *self.command, self.name]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                env=self._environment | {"JOBEXEC_CHAOS_SHIFT": str(shift)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=end_with_parent,
            )
        self._journal.write("start", node=self.name, of=self._process.pid, shift=shift)

    def signal(self, what: str, number: signal.Signals) -> None:
        """Send a signal, and tell before and after: a process that is killed is gone somewhere in between."""
        if self._process is not None and self._process.poll() is None:
            self._journal.write(what, node=self.name, of=self._process.pid)
            self._process.send_signal(number)
            self._journal.write(f"{what}-sent", node=self.name, of=self._process.pid)

    def kill(self) -> None:
        self.signal("kill", signal.SIGKILL)

    def drain(self) -> None:
        """Ask it once to end in order: the second signal would make it leave at once."""
        if not self._draining:
            self._draining = True
            self.signal("term", signal.SIGTERM)

    def pause(self) -> None:
        self.paused = True
        self.signal("pause", signal.SIGSTOP)

    def resume(self) -> None:
        if self.paused:
            self.signal("resume", signal.SIGCONT)
        self.paused = False

    def end(self, patience: float) -> None:
        """Wait for the end of a node that drains; it is killed when that takes too long."""
        if self._process is None:
            return
        try:
            code = self._process.wait(patience)
        except subprocess.TimeoutExpired:
            self.kill()
            code = self._process.wait()
        self._journal.write("exit", node=self.name, of=self._process.pid, code=code)
        self._process = None


class Caller(Node):
    """Somebody who enqueues jobs with unique keys, in a process of its own; its name says its number."""

    command = ("-m", "tests.chaos.people.callers")

    def says(self, name: str) -> dict[str, str]:
        return {}


def environment(shared: str, broken: str) -> dict[str, str]:
    """The environment of every node; `shared` is what `settings` reads."""
    root = str(Path(__file__).resolve().parents[2])
    own = {"DJANGO_SETTINGS_MODULE": "tests.chaos.settings", "JOBEXEC_CHAOS": shared, "JOBEXEC_CHAOS_BREAK": broken}
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    return {**os.environ, **own, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}
