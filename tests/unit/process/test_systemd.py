"""What a service manager is told, and when."""

import os
import socket

import pytest

from jobexec.clock import FrozenClock
from jobexec.executor.process.report import Report
from jobexec.executor.process.systemd import Notifier


@pytest.fixture
def manager(tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.setblocking(False)
        yield manager


@pytest.fixture
def notify(manager, monkeypatch):
    """A function that makes the notifier from these variables."""
    made = []

    def make(**variables):
        for name, value in {"NOTIFY_SOCKET": manager.getsockname(), **variables}.items():
            monkeypatch.setenv(name, value)
        made.append(Notifier.from_environment())
        return made[-1]

    yield make
    for notifier in made:
        notifier.close()


def heard(manager):
    try:
        return manager.recv(65536).decode().splitlines()
    except BlockingIOError:
        return []


STARTING = Report(startup=["it starts"], ready=["it starts"], status="Not ready: it starts")
SERVING = Report(status="Ready: default")
DRAINING = Report(ready=["draining"], draining=True, status="Not ready: draining")


def test_nobody_wants_to_know(monkeypatch):
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    monkeypatch.setenv("WATCHDOG_USEC", "1000")
    assert Notifier.from_environment() is None
    assert "WATCHDOG_USEC" not in os.environ


def test_the_variables_are_for_us_only(notify):
    assert notify(WATCHDOG_USEC="1000000", WATCHDOG_PID=str(os.getpid()))
    assert not {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"} & set(os.environ)


def test_everything_is_said_once(manager, notify):
    notifier = notify()
    said = []
    for report in (STARTING, STARTING, SERVING, SERVING, STARTING, DRAINING, DRAINING):
        notifier.tell(report)
        said.append(heard(manager))
    assert said == [
        ["STATUS=Not ready: it starts"],
        [],
        ["READY=1", "STATUS=Ready: default"],
        [],
        ["STATUS=Not ready: it starts"],
        ["STOPPING=1", "STATUS=Not ready: draining"],
        [],
    ]


def test_a_status_is_one_line(manager, notify):
    notify().tell(Report(startup=["x"], status="Not ready: a\nREADY=1"))
    assert heard(manager) == ["STATUS=Not ready: a READY=1"]


def test_a_sign_of_life_in_half_of_the_time_while_it_lives(manager, notify):
    with FrozenClock() as clock:
        notifier = notify(WATCHDOG_USEC="20000000")
        assert notifier.interval == 5.0
        signs = []
        for live, pause in ([], 5), ([], 5), ([], 5), (["a thread has ended"], 10), ([], 9), ([], 1):
            notifier.tell(Report(live=live))
            signs.append("WATCHDOG=1" in heard(manager))
            clock.tick(pause)
        assert signs == [True, False, True, False, True, False]


@pytest.mark.parametrize("variables", [{"WATCHDOG_PID": "1"}, {"WATCHDOG_USEC": "0"}, {"WATCHDOG_USEC": "often"}])
def test_no_sign_of_life_is_wanted_of_us(manager, notify, variables):
    notifier = notify(**{"WATCHDOG_USEC": "1000000", **variables})
    notifier.tell(SERVING)
    assert heard(manager) == ["READY=1", "STATUS=Ready: default"]


def test_a_manager_that_does_not_read_stops_nobody(notify):
    notifier = notify()
    for number in range(2000):
        notifier.tell(Report(status=str(number)))
