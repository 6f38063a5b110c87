"""Operators pause, resume and drain running executors."""

import threading
from datetime import datetime, timedelta

import pytest

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
from tests.support.waiting import TIMEOUT, until

pytestmark = pytest.mark.transactional


def states(alias):
    rows = ExecutorNode.objects.using(alias).order_by("name")
    return [(row.name, row.state, row.requested_state) for row in rows]


@pytest.fixture
def node(alias, make_executor):
    """A running executor whose heartbeat is sent by the test."""
    executor = make_executor(HEARTBEAT_INTERVAL=3600, LEASE_TIME=7300, NODE_NAME="here")
    executor.start()
    return executor.engines[alias].node


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


def test_a_drained_node_ends_its_process(alias, make_executor):
    executor = make_executor(HEARTBEAT_INTERVAL=0.05, LEASE_TIME=30, NODE_NAME="here")
    executor.start()
    said = []
    operations.drain_nodes(["here"], using=alias)
    assert operations.resume_nodes(["here"], using=alias).skipped == {"here": "it is draining"}
    assert serve(executor, Shutdown(), say=said.append) == EXIT_DRAINED
    assert said == ["Stopped by an operator. Draining: 0 jobs are running.", "Drained."]
    assert states(alias) == []


def test_a_restart_forgets_it(alias, node, make_executor):
    operations.pause_nodes(["here"], using=alias)
    node.renew()
    assert node.paused
    ExecutorNode.objects.using(alias).update(state=NodeState.DEAD)
    node.renew()  # it registers again
    node.renew()
    assert not node.paused


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
    assert states(alias) == [("a", "active", "paused"), ("b", "active", "active")]
    assert jobs("nodes", "resume", "a", alias=alias)[0] == 0
    assert jobs("nodes", "drain", "a", "b", alias=alias)[0] == 0
    assert states(alias) == [("a", "active", "draining"), ("b", "active", "draining")]
    assert "threads" in jobs("nodes", alias=alias)[1]
    assert [each["name"] for each in objects("nodes", alias=alias)[1]] == ["a", "b"]


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
