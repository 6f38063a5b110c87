"""``manage.py runjobexecutor`` as a real process, with its output and its exit code."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

from django.conf import settings

from tests.support.suite import databases
from tests.support.waiting import TIMEOUT, until

#: Short times, except that a machine that is so busy that a node stands still for seconds costs no node its lease.
QUICK = {
    "LEASE_TIME": 30,
    "HEARTBEAT_INTERVAL": 0.5,
    "RECOVERY_INTERVAL": 0.3,
    "GRACE_PERIOD": 20,
    "THREADS": 2,
    "QUEUE_SIZE": 50,
    "ENGINES": {"default": {"WAIT_TIME": 0.02, "MAX_WAIT": 0.2, "MAX_WAIT_WHEN_LISTENING": 0.5}},
}
#: For tests that wait until the lease of a node that has died is over.
SHORT_LEASE = {"LEASE_TIME": 3}


class Process:
    """A started command. `out` and `err` are the lines so far."""

    def __init__(self, command: list[str], env: dict[str, str]) -> None:
        self._mark = f"JOBEXEC_TEST_PROCESS={uuid4()}"
        env = env | dict([self._mark.split("=")])
        self.popen = subprocess.Popen(
            command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        self.out: list[str] = []
        self.err: list[str] = []
        self._readers = [
            threading.Thread(target=self._read, args=arguments, daemon=True)
            for arguments in ((self.popen.stdout, self.out), (self.popen.stderr, self.err))
        ]
        for reader in self._readers:
            reader.start()

    @staticmethod
    def _read(stream: Any, lines: list[str]) -> None:
        for line in stream:
            lines.append(line.rstrip("\n"))

    @property
    def pid(self) -> int:
        return self.popen.pid

    @property
    def text(self) -> str:
        """All that it said, for the message of a failed test."""
        return "\n".join([*self.out, "--- stderr:", *self.err])

    def started(self) -> "Process":
        """Wait until it has said that it serves."""
        until(lambda: self._ready() or self.popen.poll() is not None, TIMEOUT)
        assert self.popen.poll() is None, self.text
        return self

    def _ready(self) -> bool:
        return any("Ctrl-C drains" in line for line in self.out)

    def said(self, text: str) -> None:
        """Wait until it has said this."""
        until(lambda: text in self.text, TIMEOUT)

    def send(self, number: signal.Signals) -> None:
        self.popen.send_signal(number)

    def send_group(self, number: signal.Signals) -> None:
        """What a terminal does for Ctrl-C."""
        os.killpg(self.popen.pid, number)

    def ended(self, timeout: float = TIMEOUT) -> int:
        """Wait for its end; returns the exit code."""
        code = self.popen.wait(timeout)
        for reader in self._readers:
            reader.join(timeout)
        return code

    def close(self) -> None:
        """End it, however it is, and whatever it has started.

        A supervisor's process that lives on for a moment would find its node gone, register anew, and leave its rows to
        the next test.
        """
        if self.popen.poll() is None:
            self.popen.kill()
            self.popen.wait(TIMEOUT)
        until(lambda: not self._kill_family(), TIMEOUT)
        for reader, stream in zip(self._readers, (self.popen.stdout, self.popen.stderr), strict=True):
            reader.join(10)  # a child that it left behind may hold the pipe
            if stream is not None and not reader.is_alive():
                stream.close()

    def _kill_family(self) -> list[int]:
        """Kill all processes that inherited our mark; those that were still there."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):  # nothing where there is no /proc
            try:
                if self._mark.encode() in (folder / "environ").read_bytes().split(b"\0"):
                    os.kill(int(folder.name), signal.SIGKILL)
                    found.append(int(folder.name))
            except OSError:
                continue  # gone meanwhile, or somebody else's
        return found


def environment(alias: str | None, apps: Sequence[str] = (), **overrides: Any) -> dict[str, str]:
    """The environment of an executor of this test's database, with the handlers of `tests.process.jobs` and `apps`."""
    overrides.setdefault("INSTALLED_APPS", [*settings.INSTALLED_APPS, "tests.process", *apps])
    return databases.environment(alias, **overrides) | {"PYTHONUNBUFFERED": "1"}


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "django", "runjobexecutor", *arguments]


def alive(pid: int) -> bool:
    """Whether the process exists and is no zombie."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False
