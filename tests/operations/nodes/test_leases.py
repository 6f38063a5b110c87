"""Leases: register, renew, declare dead; of a heartbeat and a declaration of death, one wins."""

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from django.db.models import Exists, Value

from jobexec import clock, signals
from jobexec.exceptions import NodeRefused
from jobexec.models import ExecutorNode, NodeState
from jobexec.operations.nodes.leases import (
    NodeProfile,
    Renewal,
    declare_dead,
    live_namesakes,
    register_node,
    remove_node,
    renew_lease,
    synchronise_clock,
)
from jobexec.operations.sql.server_time import database_time
from tests.support.factories import LEASE_TIME, make_node

pytestmark = pytest.mark.every_database

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
servers = pytest.mark.databases("postgresql", "mariadb")


def stored(node):
    return ExecutorNode.objects.using(node._state.db).get(pk=node.pk)


def test_registering_writes_the_row(alias):
    profile = NodeProfile("berlin", threads=4, queue_size=9, categories=("a", "b"), deployment_aware=True)
    node = stored(register_node(alias, profile, LEASE_TIME))
    assert (node.name, node.lock_owner, node.state) == ("berlin", f"berlin:{node.pk}", NodeState.ACTIVE)
    assert (node.start_time, node.heartbeat_time, node.lease_expiration_time) == (NOW, NOW, NOW + LEASE_TIME)
    assert (node.threads, node.queue_size, node.categories, node.deployment_aware) == (4, 9, ["a", "b"], True)
    assert node.pid == os.getpid()


@servers
def test_two_boots_of_one_name_are_two_nodes(alias, frozen):
    first, second = make_node(alias), make_node(alias)
    assert first.lock_owner != second.lock_owner
    assert (live_namesakes(alias, first), live_namesakes(alias, make_node(alias, "other"))) == (1, 0)
    frozen.tick(LEASE_TIME)
    assert live_namesakes(alias, first) == 0


@servers
def test_a_process_that_was_killed_here_has_no_namesake(alias, frozen):
    """Its supervisor starts another one with the same name at once; the lease of the first goes on."""
    first, second = make_node(alias), make_node(alias)
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    ExecutorNode.objects.using(alias).filter(pk=first.pk).update(pid=ended.pid)
    assert (live_namesakes(alias, first), live_namesakes(alias, second)) == (1, 0)
    ExecutorNode.objects.using(alias).filter(pk=first.pk).update(hostname="elsewhere")
    assert live_namesakes(alias, second) == 1


def test_a_heartbeat_extends_the_lease_and_tells_the_load(alias, frozen):
    node = make_node(alias)
    frozen.tick(10)
    assert renew_lease(alias, node, LEASE_TIME, busy_threads=3, queued_jobs=8, state=NodeState.DRAINING)
    row = stored(node)
    assert (row.heartbeat_time, row.lease_expiration_time) == (frozen.now, frozen.now + LEASE_TIME)
    assert (row.busy_threads, row.queued_jobs, row.state) == (3, 8, NodeState.DRAINING)


def test_a_lease_that_ran_out_unseen_is_good_again(alias, frozen):
    node = make_node(alias)
    frozen.tick(LEASE_TIME * 5)
    assert renew_lease(alias, node, LEASE_TIME)
    assert declare_dead(alias) == []


def test_only_expired_leases_are_declared_dead_and_once(alias, frozen):
    node = make_node(alias, "node")
    assert declare_dead(alias) == []
    frozen.tick(LEASE_TIME)
    assert declare_dead(alias) == [], "good to the end of its last moment"
    frozen.tick(0.001)
    assert declare_dead(alias) == [node]
    assert stored(node).state == NodeState.DEAD
    assert declare_dead(alias) == [node], "until its recovery is finished, whoever began it"
    assert not renew_lease(alias, node, LEASE_TIME), "declared dead is dead"
    remove_node(alias, node)
    assert declare_dead(alias) == []
    assert not renew_lease(alias, node, LEASE_TIME)


@pytest.mark.transactional
def test_a_heartbeat_that_comes_in_between_wins(alias, frozen, monkeypatch):
    """Between the look at the leases and the compare-and-set, the node is heard of."""
    node, heard = make_node(alias), []
    frozen.tick(LEASE_TIME * 2)
    exclude = ExecutorNode.objects.using(alias).exclude(state=NodeState.DEAD)
    iterate = type(exclude).__iter__

    def iterate_and_renew(queryset):
        rows = list(iterate(queryset))
        monkeypatch.undo()
        assert renew_lease(alias, node, LEASE_TIME)
        return iter(rows)

    monkeypatch.setattr(type(exclude), "__iter__", iterate_and_renew)
    receiver = lambda **kwargs: heard.append(kwargs["node"])  # noqa: E731
    signals.node_lost.connect(receiver)
    try:
        assert declare_dead(alias) == []
        assert stored(node).state == NodeState.ACTIVE
        frozen.tick(LEASE_TIME * 2)
        declare_dead(alias)
        declare_dead(alias)
        assert heard == [node]
    finally:
        signals.node_lost.disconnect(receiver)


@pytest.mark.transactional
@pytest.mark.databases("sqlite")
def test_sqlite_bears_one_node(alias, frozen):
    node = make_node(alias, "first")
    with pytest.raises(NodeRefused) as refused:
        make_node(alias, "second")
    assert str(refused.value) == (
        "'default' is on SQLite, which only one executor at a time may serve, and node 'first' (process "
        f"{os.getpid()} on "
        f"{node.hostname}) holds it at least until 2026-03-01T12:00:30+00:00. Stop that node or wait."
    )
    assert ExecutorNode.objects.using(alias).count() == 1
    frozen.tick(LEASE_TIME)
    assert make_node(alias, "second")


@pytest.mark.databases("sqlite")
@pytest.mark.parametrize("how", ["removed", "dead", "its process is gone"])
def test_sqlite_takes_the_next_node_when_the_first_is_gone(alias, how):
    node = make_node(alias, "first")
    if how == "removed":
        remove_node(alias, node)
    elif how == "dead":
        ExecutorNode.objects.using(alias).update(state=NodeState.DEAD)
    else:
        child = subprocess.Popen([sys.executable, "-c", ""])
        child.wait()
        ExecutorNode.objects.using(alias).update(pid=child.pid)
    assert make_node(alias, "second")


@pytest.mark.transactional
@pytest.mark.databases("sqlite")
def test_sqlite_believes_a_lease_from_another_host(alias):
    make_node(alias, "first")
    ExecutorNode.objects.using(alias).update(hostname="elsewhere", pid=999_999_999)
    with pytest.raises(NodeRefused, match="on elsewhere"):
        make_node(alias, "second")


def test_the_time_is_the_databases(alias, frozen):
    time = database_time(alias)
    if alias == "default":
        assert time is None
    else:
        assert time.utcoffset() == timedelta(0)
        assert abs(time - datetime.now(UTC)) < timedelta(seconds=5)
    assert synchronise_clock(alias) == NOW, "a frozen clock stays frozen"


@servers
def test_a_pause_on_the_way_to_the_database_puts_no_clock_ahead(alias, monkeypatch, frozen):
    """Counting half of the round trip, a node that was paused for a minute would take others for dead too soon."""
    from jobexec.operations.sql import server_time

    frozen.__exit__(None, None, None)
    passed = [100.0]
    monkeypatch.setattr(clock, "time", SimpleNamespace(monotonic=lambda: passed[0]))

    def late(using):
        passed[0] += 60
        return NOW

    monkeypatch.setattr(server_time, "database_time", late)
    try:
        assert synchronise_clock(alias) == NOW
    finally:
        clock.forget(alias)
        frozen.__enter__()


@servers
def test_a_wrong_clock_of_the_node_does_not_matter(alias, monkeypatch, frozen):
    from jobexec.operations.sql import server_time

    frozen.__exit__(None, None, None)
    wrong = datetime(2031, 1, 1, tzinfo=UTC)
    monkeypatch.setattr(server_time, "database_time", lambda using: wrong)
    try:
        assert abs(make_node(alias).start_time - wrong) < timedelta(seconds=5)
        assert abs(clock.now(alias) - wrong) < timedelta(seconds=5)
    finally:
        clock.forget(alias)
        frozen.__enter__()


@servers
@pytest.mark.parametrize("hours", [-1, 1])
def test_a_lease_is_right_although_the_clock_was_wrong(alias, frozen, hours):
    """The machine was suspended since the last heartbeat, or somebody has set the clock of the database."""
    frozen.__exit__(None, None, None)
    try:
        node = make_node(alias)
        clock.synchronise(alias, database_time(alias) + timedelta(hours=hours), clock.monotonic())
        before = database_time(alias)
        assert renew_lease(alias, node, LEASE_TIME)
        after = database_time(alias)
        slack = timedelta(seconds=0.2)
        assert before - slack <= stored(node).lease_expiration_time - LEASE_TIME <= after + slack
        assert abs(clock.now(alias) - after) < timedelta(seconds=30)
    finally:
        clock.forget(alias)
        frozen.__enter__()


def test_a_heartbeat_answers_questions_on_its_way_unless_it_comes_too_late(alias, frozen):
    node, other = make_node(alias), Exists(ExecutorNode.objects.using(alias).filter(name="x"))
    questions = {"yes": ~other, "no": other, "always": Value(True)}
    assert renew_lease(alias, node, LEASE_TIME, questions=questions) == Renewal(frozenset({"yes", "always"}))
    assert renew_lease(alias, node, LEASE_TIME, questions={}) == Renewal()
    ExecutorNode.objects.using(alias).update(state=NodeState.DEAD)
    assert renew_lease(alias, node, LEASE_TIME, questions=questions) is None
    remove_node(alias, node)
    assert renew_lease(alias, node, LEASE_TIME, questions=questions) is None


@pytest.mark.databases("postgresql")
def test_a_heartbeat_is_one_statement(alias, frozen, django_assert_num_queries):
    node = make_node(alias)
    questions = {"yes": Exists(ExecutorNode.objects.using(alias).all())}
    with django_assert_num_queries(1, using=alias):
        assert renew_lease(alias, node, LEASE_TIME, questions=questions, busy_threads=3)
