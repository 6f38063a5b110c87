"""One child of a supervisor: when it is started again, what is said to it, what it says. The processes are real."""

import os
import socket
import sys
import threading
from io import StringIO

import pytest
from django.core.management.base import SystemCheckError

from jobexec.clock import FrozenClock
from jobexec.executor.process import control_pipe
from jobexec.executor.process.child import Child
from jobexec.executor.process.control_pipe import Downward, Upward
from jobexec.executor.process.report import Report
from jobexec.executor.process.shutdown import Shutdown
from jobexec.executor.process.supervisor import Supervisor
from jobexec.management import supervised as supervised_command
from jobexec.management.commands import runjobexecutor
from tests.support.waiting import TIMEOUT, until

REPORT = """
import json, os, socket, sys
end = socket.socket(fileno=int(os.environ["JOBEXEC_SUPERVISED"].partition(":")[2]))
end.send(json.dumps({"startup": [], "ready": [], "live": [], "wish": "it is old"}).encode())
"""
WAIT = "end.settimeout(60); order = end.recv(99).decode();"


@pytest.fixture
def clock():
    with FrozenClock() as clock:
        yield clock


@pytest.fixture
def make():
    """A function that makes a child that runs this Python."""
    made = []

    def child(script, finite=False):
        made.append(Child("here", [sys.executable, "-S", "-c", script], finite))
        return made[-1]

    yield child
    for child in made:
        child.leave()
        child.wait(180)


def died(child):
    """Start it if it is time, and wait until its end has been noticed; the seconds until it is started again."""
    child.keep()
    until(lambda: not child.running)
    child.keep()
    return child.details().get("restart_in_seconds")


def test_pauses_grow_while_it_fails(make, clock):
    child = make("import sys; sys.exit(7)")
    pauses = []
    for _ in range(8):
        pauses.append(died(child))
        clock.tick(pauses[-1])
    assert pauses == [1, 2, 4, 8, 16, 30, 30, 30]
    assert child.details()["restarts"] == 8


def test_it_is_not_started_before_its_time(make, clock):
    child = make("import sys; sys.exit(7)")
    assert died(child) == 1
    clock.tick(0.9)
    child.keep()
    assert (child.state, child.running) == ("waiting", False)
    clock.tick(0.2)
    child.keep()
    assert child.state == "starting"


def test_a_long_life_forgives(make, clock):
    child = make("import sys; sys.exit(7)")
    for pause in (1, 2, 4):
        assert died(child) == pause
        clock.tick(pause)
    child.keep()
    until(lambda: not child.running)
    clock.tick(30)
    child.keep()
    assert child.details()["restart_in_seconds"] == 1


@pytest.mark.parametrize("code", [1, 2])
def test_what_never_started_is_hopeless(make, clock, code):
    child = make(f"import sys; sys.exit({code})")
    died(child)
    assert (child.state, child.exit_code) == ("ended", code)
    assert child.against_live() == [f"could not start (exit code {code})"]


def test_what_has_started_once_is_tried_again(make, clock):
    """Its database may be away now: a supervisor that gave it up would never serve again."""
    child = make(REPORT + "sys.exit(1)")
    assert died(child) == 1
    assert (child.state, child.exit_code, child.proven) == ("waiting", None, True)
    assert child.against_live() == []


def test_the_end_of_a_finite_one_is_an_end(make, clock):
    child = make("pass", finite=True)
    died(child)
    assert (child.state, child.exit_code, child.against_live()) == ("ended", 0, [])


def test_what_somebody_else_ended_is_started_again(make, clock):
    child = make(REPORT)
    assert died(child) == 1


def test_a_command_that_cannot_be_started_is_tried_again(clock):
    child = Child("here", ["/no/such/command"])
    child.keep()
    assert child.details() == {
        "node": "here",
        "state": "waiting",
        "restarts": 1,
        "ready": False,
        "wish": None,
        "restart_in_seconds": 1.0,
    }


@pytest.mark.parametrize("code", [0, 4, 5])
def test_a_wish_that_is_granted_costs_no_pause(make, clock, code):
    child = make(f"{REPORT}{WAIT} sys.exit({code} if order == 'recycle' else 9)")
    child.keep()
    until(lambda: child.hear() or child.wish)
    assert (child.state, child.ready, child.wish) == ("serving", True, "it is old")
    child.recycle()
    assert child.recycling
    until(lambda: not child.running)
    child.keep()
    assert child.running, "at once"
    assert (child.recycling, child.wish, child.details()["restarts"]) == (False, None, 1)


def test_to_die_while_it_is_recycled_is_a_failure(make, clock):
    child = make(f"{REPORT}{WAIT} os.kill(os.getpid(), 9)")
    child.keep()
    until(lambda: child.hear() or child.wish)
    child.recycle()
    assert died(child) == 1
    assert not child.recycling


def test_drain_is_an_order_and_leave_is_two_signals(make, clock):
    script = (
        "import signal; seen = []\n"
        "signal.signal(15, lambda *a: seen.append(15)); signal.signal(2, lambda *a: seen.append(2))\n"
        f"{REPORT}{WAIT}\n"
        "end.send(b'{\"status\": \"' + order.encode() + b'\"}')\n"
        "import time; stop = time.monotonic() + 60\n"
        "while len(seen) < 2 and time.monotonic() < stop: time.sleep(0.01)\n"
        "sys.exit(3 if sorted(seen) == [2, 15] else 9)"
    )
    child = make(script)
    child.keep()
    until(lambda: child.hear() or child.wish)
    child.drain()
    until(lambda: child.hear() or child._report.status == "drain")
    child.leave()
    until(lambda: child.wait(0.1))
    assert child.exit_code == 3


def test_before_its_first_report_a_child_is_ended_by_a_signal(make, clock):
    child = make("import time; time.sleep(60)")
    child.keep()
    child.drain()
    until(lambda: child.wait(0.1))
    assert child.exit_code == 0, "it had nothing in hand"


def test_silence_is_not_life(make, clock):
    child = make(f"{REPORT}{WAIT}")
    child.keep()
    until(lambda: child.hear() or child.wish)
    clock.tick(119)
    assert child.against_live() == []
    clock.tick(2)
    assert child.against_live() == ["has not reported for 121 s"]


def test_a_start_may_take_its_time(make, clock):
    child = make("import time; time.sleep(60)")
    child.keep()
    clock.tick(3600)
    assert (child.state, child.against_live()) == ("starting", [])


def test_nonsense_from_a_child_is_not_heard(make, clock):
    child = make(f"{REPORT}end.send(b'nonsense'); end.send(b'[1]'); end.send(b'{{\"x\": 1}}'); {WAIT}")
    child.keep()
    until(lambda: child.hear() or child.wish)
    child.hear()
    assert child.state == "serving"


@pytest.mark.gate
def test_the_end_of_each_is_seen_while_others_drain(make):
    report = REPORT.replace('"it is old"', "None")
    slow = make(f"{report}{WAIT} end.send(b'{{\"draining\": true}}'); end.recv(99)")
    quick = make(f"{report}{WAIT}")
    shutdown = Shutdown()
    supervisor = Supervisor([slow, quick], shutdown)
    running = threading.Thread(target=supervisor.run, daemon=True)
    running.start()
    states = lambda: [each["state"] for each in supervisor.report().details.get("processes", [])]  # noqa: E731
    until(lambda: states() == ["serving", "serving"])
    shutdown.request()
    until(lambda: states() == ["draining", "ended"])
    slow.leave()
    running.join(TIMEOUT)
    assert states() == ["ended", "ended"]


def test_nobody_waits_for_the_other_side():
    down = Downward()
    end = socket.socket(fileno=os.dup(down.inherited))
    end.setblocking(False)
    up = Upward(os.getppid(), end)
    down.started()
    for _ in range(1000):
        up.tell(Report(status="x" * 1000))
        down.order(control_pipe.DRAIN)
    assert down.reports()[0].status == "x" * 1000
    assert up.order() == control_pipe.DRAIN
    down.close()
    up.tell(Report())
    while up.order():
        pass
    end.close()


def test_both_ends_find_each_other(monkeypatch):
    down = Downward()
    number = os.dup(down.inherited)
    os.set_inheritable(number, True)
    monkeypatch.setenv(
        "JOBEXEC_SUPERVISED", down.environment["JOBEXEC_SUPERVISED"].replace(f":{down.inherited}", f":{number}")
    )
    up = control_pipe.supervisor.__wrapped__()
    assert not os.get_inheritable(number), "commands of jobs must not hold it"
    up.tell(Report(wish="it is old"))
    assert [report.wish for report in down.reports()] == ["it is old"]
    down.order(control_pipe.RECYCLE)
    assert (up.order(), up.order()) == (control_pipe.RECYCLE, None)
    down.close()
    up.close()


@pytest.mark.parametrize("value", ["", "x", ":", "12", "12:", "12:0", "12:99999", "12:x", "x:5"])
def test_a_variable_that_is_not_from_a_supervisor(monkeypatch, value):
    monkeypatch.setenv("JOBEXEC_SUPERVISED", value)
    above = control_pipe.supervisor.__wrapped__()
    assert "JOBEXEC_SUPERVISED" not in os.environ
    assert (above is not None) == value.startswith("12")
    if above is not None:
        above.tell(Report())
        assert (above.gone, above.order()) == (True, None)


@pytest.mark.parametrize("supervised", [False, True])
def test_a_child_repeats_no_warnings_of_the_checks(settings, monkeypatch, supervised):
    monkeypatch.setattr(supervised_command, "supervisor", lambda: Upward(1, None) if supervised else None)
    command = runjobexecutor.Command(stderr=StringIO())
    settings.JOBEXECUTOR = {}
    command.check(tags=["jobexec"])
    assert command.stderr.getvalue().count("jobexec.W018") == (0 if supervised else 1)
    settings.JOBEXEC = {"THREADS": 0}
    with pytest.raises(SystemCheckError, match="THREADS"):
        command.check(tags=["jobexec"])
