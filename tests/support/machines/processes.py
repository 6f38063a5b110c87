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

#: Short times, except for the lease: no node may lose it on a machine so busy that a node stalls for seconds.
QUICK = {
    "LEASE_TIME": 30,
    "HEARTBEAT_INTERVAL": 0.5,
    "RECOVERY_INTERVAL": 0.3,
    "GRACE_PERIOD": 20,
    "THREADS": 2,
    "QUEUE_SIZE": 50,
    "ENGINES": {"default": {"WAIT_TIME": 0.02, "MAX_WAIT": 0.2, "MAX_WAIT_WHEN_LISTENING": 0.5}},
}
#: For tests that wait until the lease of a dead node has expired.
SHORT_LEASE = {"LEASE_TIME": 3}


class Process:
    """A started command. `out` and `err` are its output lines so far."""

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
        """Its whole output, for the message of a failed test."""
        return "\n".join([*self.out, "--- stderr:", *self.err])

    def started(self) -> "Process":
        """Wait until it reports that it has started."""
        until(lambda: self._ready() or self.popen.poll() is not None, TIMEOUT)
        assert self.popen.poll() is None, self.text
        return self

    def _ready(self) -> bool:
        return any("Press Ctrl-C" in line for line in self.out)

    def said(self, text: str) -> None:
        """Wait until its output contains this text."""
        until(lambda: text in self.text, TIMEOUT)

    def send(self, number: signal.Signals) -> None:
        self.popen.send_signal(number)

    def send_group(self, number: signal.Signals) -> None:
        """Send a signal to its process group, as a terminal does for Ctrl-C."""
        os.killpg(self.popen.pid, number)

    def ended(self, timeout: float = TIMEOUT) -> int:
        """Wait for its end; return the exit code."""
        code = self.popen.wait(timeout)
        for reader in self._readers:
            reader.join(timeout)
        return code

    def close(self) -> None:
        """Kill it, in whatever state, and all processes that it has started.

        A supervisor's child that survives for a moment would find its node gone, register again, and leave its rows to
        the next test.
        """
        if self.popen.poll() is None:
            self.popen.kill()
            self.popen.wait(TIMEOUT)
        until(lambda: not self._kill_family(), TIMEOUT)
        for reader, stream in zip(self._readers, (self.popen.stdout, self.popen.stderr), strict=True):
            reader.join(10)  # a remaining child may hold the pipe
            if stream is not None and not reader.is_alive():
                stream.close()

    def _kill_family(self) -> list[int]:
        """Kill all processes that inherited our mark; return those that were still alive."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):  # no files where there is no /proc
            try:
                if self._mark.encode() in (folder / "environ").read_bytes().split(b"\0"):
                    os.kill(int(folder.name), signal.SIGKILL)
                    found.append(int(folder.name))
            except OSError:
                continue  # gone meanwhile, or of another user
        return found


def environment(alias: str | None, apps: Sequence[str] = (), **overrides: Any) -> dict[str, str]:
    """Return the environment of an executor on this test's database, with `tests.process.jobs` and `apps`.

    It does not import the pages of the admin, which it never serves. They would take a seventh of its start.
    """
    if "INSTALLED_APPS" not in overrides:
        simple = {"django.contrib.admin": "django.contrib.admin.apps.SimpleAdminConfig"}
        installed = [simple.get(name, name) for name in settings.INSTALLED_APPS]
        overrides["INSTALLED_APPS"] = [*installed, "tests.process", *apps]
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
