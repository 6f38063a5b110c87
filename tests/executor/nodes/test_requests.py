"""Operators pause, resume and drain running executors."""

import threading
from datetime import datetime, timedelta
from unittest.mock import patch

import pytest
from django.db import connections, transaction

from jobexec import clock, operations
from jobexec.executor.process.shutdown import EXIT_DRAINED, Shutdown, serve
from jobexec.executor.run import running
from jobexec.management.jobs.output.screen import Exit
from jobexec.models import ExecutorNode, Job, NodeState, OperatorType
from jobexec.operations.audit import acting
from jobexec.operations.values.operator import Operator
from tests.support.audit import audit_log
from tests.support.factories import make_job, make_node
from tests.support.jobs_command import jobs, objects
from tests.support.machines.rerouted import rerouted
from tests.support.threads import finish, start
from tests.support.waiting import TIMEOUT, until

pytestmark = pytest.mark.transactional


def states(alias):
    rows = ExecutorNode.objects.using(alias).order_by("name")
    return [(row.name, row.state, row.requested_state) for row in rows]


@pytest.fixture
def node(alias, make_executor):
    """A running executor whose own thread has sent its first heartbeat; the test sends the others."""
    executor = make_executor(HEARTBEAT_INTERVAL=3600, LEASE_TIME=7300, NODE_NAME="here")
    node, beaten = executor.engines[alias].node, threading.Event()
    renew = node.renew

    def first():
        try:
            return renew()
        finally:
            beaten.set()

    with patch.object(node, "renew", first):
        executor.start()
        assert beaten.wait(TIMEOUT)
    return node


@pytest.mark.gate
@pytest.mark.every_database
def test_a_paused_node_finishes_what_it_has_and_takes_no_more(alias, node, handle):
    begun, go, done = threading.Event(), threading.Event(), []

    def work(number, then=None):
        begun.set()
        assert go.wait(TIMEOUT)
        done.append(number)
        if then:
            handler.using(database=alias).enqueue(then)

    handler = handle(work, name="tests.work")
    make_job(alias, handler_type="tests.work", handler_configuration={"args": [1, 2], "kwargs": {}})
    assert begun.wait(TIMEOUT)
    assert operations.pause_nodes(["here", "nobody"], using=alias).skipped == {"nobody": "no living node has this name"}
    assert states(alias) == [("here", "active", "paused")]
    node.renew()
    assert states(alias) == [("here", "paused", "paused")]
    go.set()
    until(lambda: done == [1] and Job.objects.using(alias).filter(lock_owner__isnull=True).exists())
    operations.resume_nodes(["here"], using=alias)
    node.renew()
    assert states(alias) == [("here", "active", "active")]
    until(lambda: done == [1, 2])


@pytest.mark.gate
def test_a_drained_node_ends_its_process(alias, make_executor):
    executor = make_executor(HEARTBEAT_INTERVAL=0.05, LEASE_TIME=30, NODE_NAME="here")
    executor.start()
    said = []
    operations.drain_nodes(["here"], using=alias)
    assert operations.resume_nodes(["here"], using=alias).skipped == {"here": "it is draining"}
    assert serve(executor, Shutdown(), say=said.append) == EXIT_DRAINED
    assert said == ["Stopped by an operator. Draining. Running jobs: 0.", "Drained."]
    assert states(alias) == []


@pytest.mark.gate
def test_a_restart_forgets_it(alias, node, make_executor):
    operations.pause_nodes(["here"], using=alias)
    node.renew()
    assert node.paused
    ExecutorNode.objects.using(alias).update(state=NodeState.DEAD)
    node.renew()  # it registers again
    node.renew()
    assert not node.paused


@pytest.mark.gate
@pytest.mark.databases("postgresql", "mariadb")  # SQLite takes one node
def test_the_command(alias):
    assert jobs("nodes", alias=alias) == (0, "No executor is running.\n")
    make_node(alias, "a")
    make_node(alias, "b")
    code, text = jobs("nodes", "pause", "a", "c", alias=alias)
    assert code == Exit.LEFT_ALONE
    assert text.splitlines() == [
        "1 node will follow at its next heartbeat.",
        "1 node was skipped:",
        "  c  no living node has this name",
    ]
    ExecutorNode.objects.using(alias).filter(name="b").update(name="berlin")
    assert jobs("nodes", "pause", "brlin", alias=alias)[1].splitlines()[-1] == (
        "  brlin  no living node has this name. Did you mean berlin?"
    )
    ExecutorNode.objects.using(alias).filter(name="berlin").update(name="b")
    assert states(alias) == [("a", "active", "paused"), ("b", "active", "active")]
    assert jobs("nodes", "resume", "a", alias=alias)[0] == 0
    assert jobs("nodes", "drain", "a", "b", alias=alias)[0] == 0
    assert states(alias) == [("a", "active", "draining"), ("b", "active", "draining")]
    assert "threads" in jobs("nodes", alias=alias)[1]
    assert [each["name"] for each in objects("nodes", alias=alias)[1]] == ["a", "b"]


def test_a_node_whose_lease_expires_in_this_moment_is_named(alias, monkeypatch):
    make_node(alias, "a")
    later, now = iter([timedelta(0)]), clock.now
    monkeypatch.setattr(clock, "now", lambda using: now(using) + next(later, timedelta(days=1)))
    assert operations.pause_nodes(["a"], using=alias).changed == ["a"]


@pytest.mark.databases("mariadb")
def test_a_node_that_is_younger_than_the_snapshot_of_the_caller_is_named(alias):
    """MariaDB locks rows that the transaction does not see otherwise."""
    options = {**connections.settings[alias]["OPTIONS"], "isolation_level": "repeatable read"}
    with rerouted(alias, OPTIONS=options), transaction.atomic(using=alias):
        assert not ExecutorNode.objects.using(alias).exists()
        finish(start(alias, lambda: make_node(alias, "a")))
        assert operations.pause_nodes(["a"], using=alias).changed == ["a"]


def test_the_audit_log_has_it(alias):
    make_node(alias, "a")
    with acting(Operator(OperatorType.USER, "anna")):
        operations.pause_nodes(["a", "b"], using=alias)
        operations.pause_nodes(["b"], using=alias)
    (row,) = audit_log(alias)
    assert (row.verb, row.object_type, row.count) == ("pause_nodes", "executornode", 1)


@pytest.mark.every_database
def test_a_node_reports_what_it_runs(alias, node, handle, monkeypatch):
    monkeypatch.setattr(running, "REPORTED_AFTER", timedelta(0))
    begun, go = threading.Event(), threading.Event()

    def work():
        begun.set()
        assert go.wait(TIMEOUT)

    handle(work, name="tests.work")
    job = make_job(alias, handler_type="tests.work")
    assert begun.wait(TIMEOUT)
    node.renew()
    (told,) = ExecutorNode.objects.using(alias).get().running
    assert (told["job"], told["handler"], told["category"]) == (str(job.pk), "tests.work", "default")
    assert told["thread"]
    assert datetime.fromisoformat(told["since"]) <= clock.now(alias)
    go.set()
    until(lambda: not Job.objects.using(alias).exists())
    node.renew()
    assert ExecutorNode.objects.using(alias).get().running == []


@pytest.mark.databases("postgresql", "mariadb")
class TestTwoNodesOfOneName:
    @pytest.fixture
    def twins(self, alias):
        rows = [make_node(alias, "twin"), make_node(alias, "twin")]
        for pid, row in enumerate(rows, 101):
            ExecutorNode.objects.using(alias).filter(pk=row.pk).update(pid=pid, hostname="berlin")
        return rows

    def test_are_listed_with_their_processes(self, alias, twins):
        make_node(alias, "other")
        text = jobs("nodes", alias=alias)[1]
        assert "twin (101 on berlin)" in text
        assert "twin (102 on berlin)" in text
        assert "other (" not in text
        assert str(twins[0].pk) in text
        found = objects("nodes", alias=alias)[1]
        assert [each["label"] for each in found] == ["other", "twin (101 on berlin)", "twin (102 on berlin)"]

    def test_are_named_where_they_hold_a_job(self, alias, twins, monkeypatch):
        job = make_job(alias)
        held = {"lock_owner": twins[1].lock_owner, "lock_expiration_time": clock.now(alias) + timedelta(hours=1)}
        Job.objects.using(alias).update(**held)
        monkeypatch.setenv("COLUMNS", "300")
        for action in ("list", "stats"):
            assert jobs(action, alias=alias, terminal=True)[1].count("twin (102 on berlin)"), action
        assert "twin (102 on berlin)" in jobs("why", job.pk, alias=alias)[1]

    @pytest.mark.gate
    def test_are_distinguished_by_verbs(self, alias, twins):
        code, text = jobs("nodes", "pause", "twin", alias=alias)
        assert code == Exit.USAGE
        first, *candidates = text.splitlines()
        assert first == "Several living nodes have the name twin; enter the id of one of them, or its first digits:"
        assert candidates == [f"  {row.pk}  twin ({pid} on berlin)" for pid, row in enumerate(twins, 101)]
        assert {state[2] for state in states(alias)} == {"active"}
        assert jobs("nodes", "pause", twins[1].pk, alias=alias)[0] == 0
        rows = dict(ExecutorNode.objects.using(alias).values_list("pk", "requested_state"))
        assert rows == {twins[0].pk: "active", twins[1].pk: "paused"}

    def test_are_named_by_the_beginning_of_an_id(self, alias, twins):
        ExecutorNode.objects.using(alias).filter(pk=twins[0].pk).update(id="00c0ffee-0000-7000-8000-000000000001")
        ExecutorNode.objects.using(alias).filter(pk=twins[1].pk).update(id="00c0ffef-0000-7000-8000-000000000001")
        code, text = jobs("nodes", "drain", "00c0ff", alias=alias)
        assert code == Exit.USAGE
        assert text.startswith("Several ids begin with 00c0ff; enter more digits:\n  00c0ffee-")
        assert jobs("nodes", "drain", "00c0ffee", alias=alias)[0] == 0
        rows = ExecutorNode.objects.using(alias).order_by("pk").values_list("requested_state", flat=True)
        assert list(rows) == ["draining", "active"]
        assert (
            jobs("nodes", "pause", "00c0ffee", alias=alias)[1].splitlines()[2]
            == "  twin (101 on berlin)  it is draining"
        )

    def test_a_program_means_all_nodes_of_a_name(self, alias, twins):
        changed = operations.pause_nodes(["twin"], using=alias).changed
        assert changed == ["twin (101 on berlin)", "twin (102 on berlin)"]
