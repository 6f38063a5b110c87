"""What a service manager hears of real processes, over a socket as systemd's."""

import os
import signal
import socket
import time

import pytest

from tests.support.waiting import TIMEOUT, until

pytestmark = [pytest.mark.transactional, pytest.mark.slow, pytest.mark.databases("postgresql")]


class Manager:
    """The messages so far, as lines, with what the manager gives to the service."""

    def __init__(self, address: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(address.replace("@", "\0", 1))
        self.socket.settimeout(TIMEOUT)
        self.env = {"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "600000"}
        self.lines: list[str] = []

    def hear(self, line: str, anew: bool = False) -> None:
        """Wait for this line, unless it has come already (and need not come `anew`)."""
        new = [] if anew else self.lines
        end = time.monotonic() + TIMEOUT
        while line not in new:
            assert time.monotonic() < end, self.lines
            new = self.socket.recv(65536).decode().splitlines()
            self.lines += new


@pytest.fixture(params=["path", pytest.param("abstract", marks=pytest.mark.nightly)])
def manager(request, tmp_path):
    address = str(tmp_path / "notify") if request.param == "path" else f"@jobexec-test-{os.getpid()}"
    manager = Manager(address)
    yield manager
    manager.socket.close()


def test_one_process(alias, run, enqueue, trace, manager):
    executor = run(env=manager.env)
    manager.hear("READY=1")
    assert "STATUS=Not ready: the executor is starting" in manager.lines
    manager.hear("WATCHDOG=1", anew=True)
    manager.hear("WATCHDOG=1", anew=True)
    enqueue("show_environment")
    enqueue("wait", "a", str(trace.go))
    until(lambda: "begun a" in trace.lines())
    executor.send(signal.SIGTERM)
    manager.hear("STOPPING=1")
    assert "STATUS=Ready: default" in manager.lines
    manager.hear("WATCHDOG=1", anew=True)  # while it drains, too
    trace.go.touch()
    assert executor.ended() == 0, executor.text
    assert manager.lines.count("READY=1") == manager.lines.count("STOPPING=1") == 1
    assert "environment of a job's command: []" in trace.lines()


@pytest.mark.parametrize("manager", ["path"], indirect=True)
def test_a_supervisor_is_the_main_process(alias, run, enqueue, trace, manager):
    supervisor = run("--processes", "2", "--node", "pair", env=manager.env)
    manager.hear("READY=1")
    manager.hear("STATUS=Ready: pair-1, pair-2")
    manager.hear("WATCHDOG=1", anew=True)
    enqueue("show_environment")
    enqueue("wait", "a", str(trace.go))
    until(lambda: "begun a" in trace.lines())
    supervisor.send(signal.SIGTERM)
    manager.hear("STOPPING=1")
    manager.hear("WATCHDOG=1", anew=True)
    trace.go.touch()
    assert supervisor.ended() == 0, supervisor.text
    assert manager.lines.count("READY=1") == 1
    until(lambda: "environment of a job's command: []" in trace.lines())


@pytest.mark.parametrize("manager", ["path"], indirect=True)
@pytest.mark.nightly
def test_a_supervisor_that_stands_still_is_not_heard(alias, run, manager):
    supervisor = run("--max-jobs", "1000", env=manager.env)
    manager.hear("READY=1")
    supervisor.send(signal.SIGSTOP)
    manager.socket.settimeout(3)
    with pytest.raises(TimeoutError):  # the child, which runs on, does not speak in its place
        while True:
            manager.hear("WATCHDOG=1", anew=True)
    supervisor.send(signal.SIGCONT)
    manager.socket.settimeout(TIMEOUT)
    manager.hear("WATCHDOG=1", anew=True)
    supervisor.send(signal.SIGTERM)
    assert supervisor.ended() == 0, supervisor.text


@pytest.mark.parametrize("manager", ["path"], indirect=True)
@pytest.mark.nightly
def test_the_watchdog_of_another_process_is_not_ours(alias, run, manager):
    executor = run(env=manager.env | {"WATCHDOG_PID": "1"})
    manager.hear("STATUS=Ready: default")
    executor.send(signal.SIGTERM)
    assert executor.ended() == 0, executor.text
    manager.hear("STOPPING=1")
    assert "WATCHDOG=1" not in manager.lines


@pytest.mark.databases("sqlite")
@pytest.mark.parametrize("address", ["/nowhere/notify", "vsock:2:1"])
def test_a_manager_that_cannot_be_reached_stops_nobody(alias, run, address):
    executor = run(env={"NOTIFY_SOCKET": address}).started()
    executor.send(signal.SIGTERM)
    assert executor.ended() == 0, executor.text
    assert ("systemd is not notified" in executor.text) == address.startswith("vsock")
