"""Two nodes on two hosts; one is cut off from the database for longer than its lease."""

import json
import signal

import psycopg
import pytest
from django.db import connections

from demo_project.bookings.models import Booking
from jobexec.conf import get_settings
from jobexec.executor.nodes.node import Node
from jobexec.models import ExclusiveLock, ExecutorNode, Job, JobLog
from jobexec.runtime import notifications
from jobexec.runtime.wake_up import WakeUpEvent
from tests.support.executor import all_gone
from tests.support.machines import processes
from tests.support.machines.namespaces import SERVER, network
from tests.support.machines.proxy import in_front_of
from tests.support.machines.rerouted import rerouted
from tests.support.waiting import TIMEOUT, until

pytestmark = [pytest.mark.slow, pytest.mark.transactional, pytest.mark.databases("postgresql")]

#: What the guide recommends, shorter: a thread that waits for a dead network gives up.
PATIENCE = {
    "connect_timeout": 2,
    "keepalives_idle": 1,
    "keepalives_interval": 1,
    "keepalives_count": 3,
    "tcp_user_timeout": 3000,
}
ENDED = ["ended atomic", "ended exclusive", "ended ordinary"]
#: Nobody finds a job by polling in time.
DEAF = {"WAIT_TIME": 0.02, "MAX_WAIT": 0.2, "MAX_WAIT_WHEN_LISTENING": 300}


@pytest.fixture
def hosts(alias):
    """A network with the hosts a and b, and a function that starts an executor on one of them."""
    env = processes.environment(alias)
    (address,) = json.loads(env["JOBEXEC_TEST_CONNECTIONS"]).values()
    started = []
    with network("a", "b") as net, in_front_of(address, net.listener()) as proxy:
        options = {**address["OPTIONS"], **PATIENCE}
        there = {**address, "HOST": SERVER, "PORT": str(proxy.port), "OPTIONS": options}

        def start(host, **keys):
            jobexec = {**processes.QUICK, "THREADS": 6, "LEASE_TIME": 5, "ENGINES": {"default": DEAF}, **keys}
            child = processes.environment(alias, JOBEXEC=jobexec)
            child |= {"JOBEXEC_TEST_CONNECTIONS": json.dumps({"default": there}), "TEST_HOST": host}
            command = [*net.inside(host), *processes.command("--node", host)]
            started.append(processes.Process(command, child))
            return started[-1].started()

        try:
            yield net, start
        finally:
            for process in started:
                process.close()


def by(alias, node, state="successful"):
    return JobLog.objects.using(alias).filter(state=state, node=node).count()


@pytest.mark.nightly
def test_a_node_that_was_cut_off_finishes_nothing_that_another_has_taken_over(alias, hosts, enqueue, trace):
    net, start = hosts
    go = str(trace.go)
    a = start("a")
    enqueue("heed_the_lease", "heeding", go)
    enqueue("book", "atomic", go, atomic=True)
    enqueue("wait_there", "exclusive", go, process_instance_id="order-1")
    enqueue("wait_there", "ordinary", go)
    begun = ["begun atomic", "begun exclusive", "begun heeding", "begun ordinary"]
    until(lambda: sorted(trace.lines()) == begun)
    enqueue("note", "sibling", process_instance_id="order-1")
    b = start("b", LEASE_TIME=30)
    old = ExecutorNode.objects.using(alias).get(name="a").lock_owner

    net.cut("a")
    # All four run again, side by side: they were lost for the first time.
    until(lambda: "lost heeding" in trace.lines() and sum(line.startswith("begun") for line in trace.lines()) == 8)
    trace.go.with_name("go-a").touch()
    until(lambda: sorted(line for line in trace.lines() if line.startswith("ended")) == ENDED)
    assert a.popen.poll() is None, a.text
    assert "was declared dead" not in a.text, "it cannot know yet"

    net.join("a")
    a.said("was declared dead")
    until(lambda: a.text.count("its lock was lost; this outcome is discarded") == 4)
    until(lambda: ExecutorNode.objects.using(alias).exclude(lock_owner=old).filter(name="a").exists())
    owners = [(row.lock_owner or "")[:2] for row in Job.objects.using(alias).all()]
    assert owners == ["b:"] * 5, "whatever a has done late, the jobs are b's, and b is not done"
    assert (by(alias, "a"), Booking.objects.using(alias).count()) == (0, 0)

    trace.go.with_name("go-b").touch()
    until(lambda: all_gone(alias))
    assert (by(alias, "a"), by(alias, "b")) == (0, 5)
    assert Booking.objects.using(alias).count() == 1, "what a did in its transaction is undone"
    assert trace.texts().count("sibling") == 1
    assert not JobLog.objects.using(alias).filter(state="failed").exists(), "nobody was charged"
    assert not ExclusiveLock.objects.using(alias).exists()

    b.send(signal.SIGTERM)
    assert b.ended() == 0, b.text
    enqueue("note", "a works again")  # and hears again: its polls are minutes apart
    until(lambda: all_gone(alias))
    assert by(alias, "a") == 1
    a.send(signal.SIGTERM)
    assert a.ended() == 0, a.text
    assert not Job.objects.using(alias).exists() and not ExecutorNode.objects.using(alias).exists()


def test_who_listens_notices_by_itself_that_the_network_is_dead(alias, monkeypatch):
    # No OPTIONS help here. The probes of the system are the listener's own, only sooner.
    assert {"keepalives_idle", "keepalives_interval", "keepalives_count", "tcp_user_timeout"} <= set(
        notifications._PATIENCE
    )
    monkeypatch.setattr(notifications, "_PATIENCE", PATIENCE)
    settings = get_settings()
    heard = []
    ear = notifications.Listener(
        Node(settings, settings.engine(alias), dict), lambda content: (heard.append(1), bell.set())
    )
    bell = WakeUpEvent(ear)

    def listen():
        ear.run_once()
        assert ear.listening
        net.cut("a")
        del heard[:]
        bell.clear()
        assert bell.wait(TIMEOUT), "the system says that the connection is dead"
        with pytest.raises(psycopg.OperationalError):
            ear.run_once()

    address = connections[alias].settings_dict
    with (
        network("a") as net,
        in_front_of(address, net.listener()) as proxy,
        rerouted(alias, HOST=SERVER, PORT=str(proxy.port), OPTIONS={}),
    ):
        try:
            net.call("a", listen)
        finally:
            ear.stop(TIMEOUT)
    assert (ear.listening, heard) == (False, [1]), "whoever waits long because we listen must begin to poll"
