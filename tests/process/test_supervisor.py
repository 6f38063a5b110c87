"""Several processes under one command."""

import json
import os
import signal

import pytest

from jobexec.models import ExecutorNode, Job
from jobexec.operations import drain_nodes
from tests.support.factories import tables_of
from tests.support.machines import health, processes
from tests.support.machines.processes import alive
from tests.support.machines.proxy import in_front_of, moved
from tests.support.waiting import until

pytestmark = [pytest.mark.transactional, pytest.mark.slow, pytest.mark.databases("postgresql")]


def nodes(alias):
    return {node.name: node.pid for node in ExecutorNode.objects.using(alias).exclude(state="dead")}


@pytest.fixture
def pair(alias, run):
    """A supervisor with two executors, which are named after it."""

    def start(*arguments, **keys):
        supervisor = run("--processes", "2", "--node", "pair", *arguments, **keys)
        until(lambda: len(nodes(alias)) == 2 or supervisor.popen.poll() is not None, 60)
        assert set(nodes(alias)) == {"pair-1", "pair-2"}, supervisor.text
        return supervisor

    pids = []
    yield start
    pids += nodes(alias).values()
    for pid in pids:
        if alive(pid):
            os.kill(pid, signal.SIGKILL)


def test_ctrl_c_reaches_the_group_and_counts_once(alias, pair, enqueue, trace):
    supervisor = pair("--threads", "1", "--queue-size", "1")
    for number in range(5):
        enqueue("wait", str(number), str(trace.go))
    until(lambda: len(trace.lines()) == 2)
    children = nodes(alias).values()
    supervisor.send_group(signal.SIGINT)
    until(lambda: Job.objects.using(alias).exclude(lock_owner=None).count() == 2)
    assert all(map(alive, children)), "they drain"
    trace.go.touch()
    assert supervisor.ended() == 0, supervisor.text
    assert sorted(line.split()[0] for line in trace.lines()) == ["begun", "begun", "ended", "ended"]
    assert nodes(alias) == {}
    assert len(tables_of(alias)) == 3


def test_a_child_that_was_killed_is_restarted(alias, pair, enqueue, trace):
    supervisor = pair(**processes.SHORT_LEASE)
    before = nodes(alias)
    os.kill(before["pair-1"], signal.SIGKILL)
    supervisor.said("restarting in 1 s")
    until(lambda: nodes(alias).get("pair-1", before["pair-1"]) != before["pair-1"] and len(nodes(alias)) == 2, 60)
    assert nodes(alias)["pair-2"] == before["pair-2"]
    supervisor.send(signal.SIGTERM)
    assert supervisor.ended() == 0, supervisor.text


def test_a_child_that_an_operator_has_drained_is_not_restarted(alias, pair):
    supervisor = pair()
    drain_nodes(["pair-2"], using=alias)
    supervisor.said("Stopped by an operator. Draining.")
    until(lambda: set(nodes(alias)) == {"pair-1"})
    drain_nodes(["pair-1"], using=alias)
    assert supervisor.ended() == 0, supervisor.text
    assert "restarting" not in supervisor.text
    assert nodes(alias) == {}


@pytest.mark.nightly
def test_a_child_that_somebody_else_ended_is_restarted(alias, pair):
    supervisor = pair()
    before = nodes(alias)
    os.kill(before["pair-2"], signal.SIGTERM)
    supervisor.said("(pair-2) ended with 0; restarting in 1 s")
    until(lambda: nodes(alias).get("pair-2", before["pair-2"]) != before["pair-2"])
    supervisor.send(signal.SIGTERM)
    assert supervisor.ended() == 0, supervisor.text


@pytest.mark.nightly
def test_a_signal_to_every_process_at_once_is_the_first_one(alias, pair, enqueue, trace):
    """systemd does that, unless told otherwise: KillMode=control-group."""
    supervisor = pair("--threads", "1", "--queue-size", "1")
    for number in range(3):
        enqueue("wait", str(number), str(trace.go))
    until(lambda: len(trace.lines()) == 2)
    children = nodes(alias).values()
    for pid in (*children, supervisor.pid):
        os.kill(pid, signal.SIGTERM)
    until(lambda: ExecutorNode.objects.using(alias).filter(state="draining").count() == 2)
    assert all(map(alive, children)), "they drain"
    trace.go.touch()
    assert supervisor.ended() == 0, supervisor.text
    assert sorted(line.split()[0] for line in trace.lines()) == ["begun", "begun", "ended", "ended"]
    assert Job.objects.using(alias).get().lost_runs == 0


@pytest.mark.nightly
def test_a_child_that_dies_while_the_database_is_away_is_started_when_it_is_back(alias, run):
    addresses = json.loads(processes.environment(alias, JOBEXEC={})["JOBEXEC_TEST_CONNECTIONS"])
    with in_front_of(addresses["default"]) as proxy:
        through = json.dumps({"default": moved(addresses["default"], proxy)})
        supervisor = run(
            *("--processes", "2", "--node", "pair", "--health-port", "0"),
            env={"JOBEXEC_TEST_CONNECTIONS": through},
            **processes.SHORT_LEASE,
        )
        until(lambda: health.ask(supervisor, "startup").code == 200)
        before = nodes(alias)
        proxy.cut()
        os.kill(before["pair-1"], signal.SIGKILL)
        supervisor.said("(pair-1) ended with 1; restarting in")  # "the database does not answer"
        proxy.repair()
        until(lambda: nodes(alias).get("pair-1", before["pair-1"]) != before["pair-1"])
        supervisor.send(signal.SIGTERM)
        assert supervisor.ended() == 0, supervisor.text


@pytest.mark.nightly
def test_the_second_signal_is_passed_on(alias, pair, enqueue, trace):
    enqueue("wait", "a", str(trace.go))
    supervisor = pair("--threads", "1")
    until(lambda: trace.lines() == ["begun a"] and len(nodes(alias)) == 2)
    supervisor.send(signal.SIGTERM)
    until(lambda: len(nodes(alias)) == 1)
    supervisor.send(signal.SIGTERM)
    assert supervisor.ended() == 3, supervisor.text
    assert Job.objects.using(alias).get().lock_owner is not None


def test_children_notice_that_the_supervisor_is_gone_and_drain(alias, pair, enqueue, trace):
    enqueue("wait", "a", str(trace.go))
    supervisor = pair("--threads", "1")
    until(lambda: trace.lines() == ["begun a"])
    children = nodes(alias).values()
    supervisor.send(signal.SIGKILL)
    supervisor.said("The supervisor is gone; draining")
    trace.go.touch()
    until(lambda: not any(map(alive, children)))
    assert (tables_of(alias), nodes(alias)) == ({}, {})
    assert trace.lines() == ["begun a", "ended a"]


@pytest.mark.nightly
def test_children_that_cannot_start_end_the_supervisor_with_their_code(alias, run):
    supervisor = run("--processes", "2", "--node", "n" * 100)  # the names of its children are longer than allowed
    assert supervisor.ended() == 2
    assert "1 to 100 printable characters" in supervisor.text


@pytest.mark.nightly
def test_until_empty_ends_all_of_them(alias, run, enqueue, trace):
    for number in range(20):
        enqueue("note", str(number))
    supervisor = run("--processes", "2", "--until-empty")
    assert supervisor.ended() == 0, supervisor.text
    assert sorted(trace.texts()) == sorted(map(str, range(20)))
