"""`manage.py runjobexecutor --from-broker` as a real process: what it refuses, and how it ends, killed or not."""

import signal
from uuid import UUID

import pytest

from jobexec.broker.message import NORMAL, Announcement, encode
from jobexec.models import Job
from tests.support.executor import all_gone
from tests.support.machines import brokers
from tests.support.machines.processes import SHORT_LEASE
from tests.support.waiting import until

pytestmark = [pytest.mark.transactional, pytest.mark.databases("postgresql"), pytest.mark.slow]

#: Nothing but the first look of a node finds anything in the table.
NEVER = {"WAIT_TIME": 0.02, "MAX_WAIT": 60, "MAX_WAIT_WHEN_LISTENING": 60}


@pytest.fixture(params=brokers.parameters("rabbitmq"))
def broker(request):
    broker = brokers.Broker(request.param, brokers.URLS[request.param])
    yield broker
    broker.remove("default", ("default",))


@pytest.fixture
def node(run, broker):
    def start(*arguments, **keys):
        return run("--from-broker", *arguments, **broker.settings(ENGINES={"default": NEVER}), **keys)

    return start


@pytest.fixture
def announce(enqueue, broker):
    """A function that makes a job and announces it: the children know this database as "default"."""

    def make(*arguments, **columns):
        id: UUID = enqueue(*arguments, **columns).pk
        broker.say("default", encode(Announcement("default", "default", "", NORMAL, [id])))
        return id

    return make


def test_what_it_refuses(alias, run, tmp_path):
    process = run("--from-broker")
    assert process.ended() == 1
    assert "JOBEXEC['DISPATCH'] is 'database'" in process.text
    (tmp_path / "kombu.py").write_text("raise ImportError('not here')\n")
    keys = {"DISPATCH": "broker", "BROKER_URL": "redis://127.0.0.1:6379/0"}
    process = run("--from-broker", env={"PYTHONPATH": f"{tmp_path}:{brokers.ROOT}"}, **keys)
    assert process.ended() == 1
    assert "the extra 'broker'" in process.text and "jobexec.E013" in process.text


def test_it_serves_what_is_announced_and_drains(alias, node, announce, trace):
    process = node().started()
    assert any("announced by" in line for line in process.out) and "guest:guest" not in process.text
    announce("note", "hello")
    until(lambda: trace.texts() == ["hello"])
    announce("wait", "long", str(trace.go))
    until(lambda: "begun long" in trace.lines())
    process.send(signal.SIGTERM)
    process.said("drain")
    trace.go.touch()
    assert process.ended() == 0, process.text
    assert "ended long" in trace.lines() and all_gone(alias)


@pytest.mark.slow
def test_a_node_that_is_killed_between_the_lock_and_the_run(alias, node, announce, trace):
    first = node("--threads", "1", "--node", "first", **SHORT_LEASE).started()
    announce("wait", "long", str(trace.go))
    until(lambda: trace.lines() == ["begun long"])
    announce("note", "behind")
    until(lambda: Job.objects.using(alias).exclude(lock_owner=None).count() == 2)
    first.send(signal.SIGKILL)
    first.ended()
    node("--node", "second", **SHORT_LEASE).started()
    trace.go.touch()
    until(lambda: all_gone(alias))  # what the dead one had is recovered, and announced again
    assert trace.lines().count("ended long") == 1 and trace.texts().count("behind") == 1
