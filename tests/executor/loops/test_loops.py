"""One round of the timers, of recovery and of the heartbeat."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from django.db import OperationalError, connections

from jobexec import signals
from jobexec.clock import FrozenClock
from jobexec.conf import get_settings
from jobexec.executor.job_executor import JobExecutor
from jobexec.executor.loops import acquisition
from jobexec.executor.loops.heartbeat import Heartbeat
from jobexec.executor.loops.recovery import Recovery
from jobexec.executor.loops.suspensions import SuspensionSweep
from jobexec.executor.loops.timers import TimerAcquisition
from jobexec.executor.nodes.node import Node
from jobexec.models import ExecutorNode, Job, NodeState, SuspendedJob, TimerJob
from jobexec.operations import suspend
from jobexec.operations.nodes.leases import declare_dead
from jobexec.operations.values.acquired_job import Acquisition
from tests.support.factories import acquire, make_job, table_of

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def frozen():
    with FrozenClock(NOW) as clock:
        yield clock


@pytest.fixture
def node(alias, configure):
    configure({"MAX_WAIT": 5, "MAX_WAIT_WHEN_LISTENING": 30})
    settings = get_settings()
    node = Node(settings, settings.engine(alias), lambda: {"busy_threads": 3, "queued_jobs": 7})
    node.register()
    return node


def test_timers_wait_exactly_until_the_next_due_date(alias, node, frozen):
    loop = TimerAcquisition(node, lambda: False)
    assert loop.run_once() == pytest.approx(5.0)
    make_job(alias, due_date=NOW + timedelta(seconds=100))
    make_job(alias, due_date=NOW + timedelta(seconds=3.25))
    assert loop.run_once() == pytest.approx(3.25)
    frozen.tick(3.2)
    assert loop.run_once() == pytest.approx(0.05)
    assert not Job.objects.using(alias).exists()
    frozen.tick(0.05)
    assert loop.run_once() == pytest.approx(5.0)
    assert (Job.objects.using(alias).count(), TimerJob.objects.using(alias).count()) == (1, 1)


def test_timers_wait_longer_while_somebody_listens(alias, node):
    loop = TimerAcquisition(node, lambda: True)
    assert loop.run_once() == pytest.approx(300.0)
    make_job(alias, due_date=NOW + timedelta(seconds=299))
    assert loop.run_once() == pytest.approx(299.0)


@pytest.mark.transactional
@pytest.mark.databases("sqlite")  # the others refuse it
@pytest.mark.parametrize("text", ["0 is no date", "0000-00-00 00:00:00"])
def test_a_due_date_that_cannot_be_read_hides_no_other(alias, node, frozen, text):
    broken, fine = (make_job(alias, due_date=NOW + timedelta(seconds=1)) for _ in range(2))
    with connections[alias].cursor() as cursor:
        table = TimerJob._meta.db_table
        cursor.execute(f"UPDATE {table} SET due_date = %s WHERE id = %s", [text, broken.pk.hex])
    frozen.tick(1)
    for _ in range(2):
        with suppress(ValueError):
            TimerAcquisition(node, lambda: False).run_once()
    assert table_of(alias, fine) is Job


def test_a_full_page_of_timers_waits_for_nothing(alias, node, frozen, monkeypatch):
    monkeypatch.setattr("jobexec.executor.loops.timers._PAGE", 2)
    for _ in range(3):
        make_job(alias, due_date=NOW + timedelta(seconds=1))
    frozen.tick(1)
    loop = TimerAcquisition(node, lambda: False)
    assert loop.run_once() == pytest.approx(0.0)
    assert loop.run_once() == pytest.approx(5.0)
    assert Job.objects.using(alias).count() == 3


def test_recovery_frees_what_a_dead_node_held_and_wakes_acquisition(alias, node, frozen, caplog):
    lease = {"start_time": NOW, "heartbeat_time": NOW, "lease_expiration_time": NOW + timedelta(seconds=40)}
    dead = ExecutorNode.objects.using(alias).create(name="dead", lock_owner="dead:1", **lease)
    make_job(alias)
    assert len(acquire(alias, dead.lock_owner)) == 1
    woken = []
    loop = Recovery(node, lambda: woken.append(1))
    for _ in range(3):  # a node that has begun leaves the others alone for the time of a lease
        frozen.tick(10)
        node.renew()
    assert loop.run_once() == pytest.approx(300.0)
    assert (woken, Job.objects.using(alias).get().lock_owner) == ([], dead.lock_owner)
    frozen.tick(10.5)
    loop.run_once()
    row = Job.objects.using(alias).get()
    assert (woken, row.lock_owner, row.lost_runs, row.retries) == ([1], None, 1, 3)
    assert f"Node {dead.lock_owner} died with 1 jobs" in caplog.text
    assert list(ExecutorNode.objects.using(alias).values_list("name", flat=True)) == ["here"]


def test_a_node_never_declares_itself_dead(alias, node, frozen):
    make_job(alias)
    acquire(alias, node.owner)
    frozen.tick(1000)  # a database that was busy, a process that was paused
    Recovery(node, lambda: None).run_once()
    assert ExecutorNode.objects.using(alias).get().state == NodeState.ACTIVE
    assert (node.good, node.renew(), node.good) == (False, True, True)
    assert Job.objects.using(alias).get().lock_owner == node.owner


def test_recovery_looks_at_expired_locks_no_oftener_than_they_expire(alias, node, frozen):
    make_job(alias)
    acquire(alias, "execute now:1")
    loop = Recovery(node, lambda: None)
    loop.run_once()
    frozen.tick(timedelta(minutes=4))
    loop.run_once()
    assert Job.objects.using(alias).get().lock_owner == "execute now:1"
    frozen.tick(timedelta(minutes=1, seconds=1))
    loop.run_once()
    assert Job.objects.using(alias).get().lock_owner is None


def test_the_heartbeat_renews_the_lease_and_tells_the_load(alias, node, frozen):
    loop = Heartbeat(node)
    frozen.tick(20)
    assert node.good
    assert loop.run_once() == pytest.approx(10.0)
    row = ExecutorNode.objects.using(alias).get()
    assert (row.busy_threads, row.queued_jobs, row.state) == (3, 7, NodeState.ACTIVE)
    frozen.tick(29)
    assert node.good
    frozen.tick(1)
    assert not node.good
    node.drain()
    assert loop.run_once() == pytest.approx(10.0)
    assert node.good
    assert ExecutorNode.objects.using(alias).get().state == NodeState.DRAINING
    node.serve()
    loop.run_once()
    assert ExecutorNode.objects.using(alias).get().state == NodeState.ACTIVE


def test_loops_that_look_oftener_than_heartbeats_come_look_for_themselves(alias, configure):
    configure(RECOVERY_INTERVAL=3)
    settings = get_settings()
    node = Node(settings, settings.engine(alias), dict)
    node.register()
    assert (Recovery(node, lambda: None).run_once(), SuspensionSweep(node).run_once()) == pytest.approx((3.0, 3.0))


def test_the_heartbeat_sees_what_loops_that_sleep_long_wait_for(alias, configure, frozen):
    configure(RECOVERY_INTERVAL=60)
    engine = JobExecutor().engines[alias]
    engine.node.register()
    woken = []
    for loop in (engine.recovery, engine.suspensions, engine.timers):
        loop.wake = partial(woken.append, loop)

    def seen():
        woken.clear()
        assert engine.heartbeat.run_once() == pytest.approx(10.0)
        return set(woken)

    assert seen() == set()
    make_job(alias, due_date=NOW + timedelta(minutes=5))
    suspend(tenant_id="x", at=NOW + timedelta(minutes=10), until=NOW + timedelta(minutes=15), using=alias)
    lease = {"start_time": NOW, "heartbeat_time": NOW, "lease_expiration_time": NOW + timedelta(minutes=20)}
    ExecutorNode.objects.using(alias).create(name="other", lock_owner="other:1", **lease)
    assert seen() == set(), "nothing is near"
    for minutes, loops in (
        (4.8, {engine.timers}),
        (9.8, {engine.timers, engine.suspensions}),
        (20.1, {engine.timers, engine.suspensions, engine.recovery}),
    ):
        frozen.tick(NOW + timedelta(minutes=minutes) - frozen.now)
        assert seen() == loops
    declare_dead(alias, but=engine.node.owner)
    assert engine.recovery in seen(), "until its recovery is finished"


def test_a_lease_that_was_taken_begins_a_new_boot(alias, node, frozen, caplog):
    old = node.owner
    frozen.tick(31)
    assert [dead.lock_owner for dead in declare_dead(alias)] == [old]
    assert node.wait_until_decided(old, 0) is False
    Heartbeat(node).run_once()
    assert node.owner != old
    assert (node.good, node.owns(old), node.owns(node.owner)) == (True, False, True)
    assert "was declared dead" in caplog.text
    make_job(alias)
    acquire(alias, old)
    Recovery(node, lambda: None).run_once()
    assert [row.lock_owner for row in ExecutorNode.objects.using(alias).all()] == [node.owner]
    assert Job.objects.using(alias).get().lock_owner is None


def test_a_heartbeat_that_comes_too_late_does_not_bring_a_node_back_that_has_left(alias, node):
    row = node._row
    node.leave()
    assert node.renew() is False
    node._row = row  # the heartbeat had read it just before
    real = node._report

    def leave_meanwhile():
        node._row = None
        return real()

    node._report = leave_meanwhile
    assert node.renew() is False
    assert not ExecutorNode.objects.using(alias).exists()


def test_leaving_gives_back_what_is_left_and_deletes_the_row(alias, node):
    make_job(alias)
    acquire(alias, node.owner)
    node.leave()
    node.leave()
    row = Job.objects.using(alias).get()
    assert (row.lock_owner, row.lost_runs, row.retries) == (None, 0, 3)
    assert (ExecutorNode.objects.using(alias).exists(), node.owner, node.good) == (False, "", False)


@pytest.mark.databases("postgresql", "mariadb")  # SQLite bears one node
def test_two_nodes_of_one_name_are_kept_apart_and_warned(alias, node, caplog):
    settings = get_settings()
    other = Node(settings, settings.engine(alias), dict)
    other.register()
    assert "Another live node is named 'here'" in caplog.text
    assert other.owner != node.owner
    make_job(alias)
    acquire(alias, node.owner)
    make_job(alias)
    acquire(alias, other.owner)
    other.leave()
    assert {row.lock_owner for row in Job.objects.using(alias).all()} == {node.owner, None}
    assert node.renew() is True


def test_a_node_whose_deployment_cannot_be_written_leaves_no_row(alias, configure, monkeypatch):
    settings = get_settings()
    node = Node(settings, settings.engine(alias), dict)
    monkeypatch.setattr(node, "_write_deployment", lambda *args: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        node.register()
    assert node.owner == ""


def test_receivers_that_fail_do_not_keep_a_node_from_starting_or_stopping(alias):
    def fail(**kwargs):
        raise ValueError("no")

    settings = get_settings()
    node = Node(settings, settings.engine(alias), dict)
    for signal in (signals.node_started, signals.node_stopped):
        signal.connect(fail)
    try:
        node.register()
        node.leave()
    finally:
        for signal in (signals.node_started, signals.node_stopped):
            signal.disconnect(fail)
    assert not ExecutorNode.objects.using(alias).exists()


def test_suspensions_wait_exactly_until_the_next_one_begins_or_ends(alias, node, frozen):
    loop, job = SuspensionSweep(node), make_job(alias, tenant_id="x")
    assert loop.run_once() == pytest.approx(300.0)
    suspend(tenant_id="x", at=NOW + timedelta(seconds=3.25), until=NOW + timedelta(seconds=5), using=alias)
    assert loop.run_once() == pytest.approx(3.25)
    frozen.tick(3.2)
    assert loop.run_once() == pytest.approx(0.05)
    assert table_of(alias, job) is Job
    frozen.tick(0.05)
    assert loop.run_once() == pytest.approx(1.75)
    assert table_of(alias, job) is SuspendedJob
    frozen.tick(1.75)
    assert loop.run_once() == pytest.approx(300.0)
    assert table_of(alias, job) is Job


def test_a_sweep_that_meets_a_conflict_tries_again_soon_and_any_other_error_is_the_loops(alias, node, monkeypatch):
    loop, errors = SuspensionSweep(node), [OperationalError(1213, "Deadlock found"), OperationalError("gone")]
    monkeypatch.setattr("jobexec.executor.loops.suspensions.sweep_suspensions", lambda using: raise_(errors.pop(0)))
    assert loop.run_once() == pytest.approx(0.1)
    with pytest.raises(OperationalError, match="gone"):
        loop.run_once()


def raise_(error):
    raise error


def test_a_node_serves_categories_as_the_settings_say_and_keeps_their_turns(alias, configure):
    configure(CATEGORIES={"mail": 3, "default": 1}, CATEGORY_ORDER="weighted", PRIORITY_RANGE=(None, -1))
    settings = get_settings().replace(categories=["default", "mail"])
    node = Node(settings, settings.engine(alias), dict)
    node.register()
    (scope,) = node.scopes
    assert (scope.categories, scope.category_order, scope.priority_max) == (("default", "mail"), "weighted", -1)


def test_what_a_category_is_owed_outlives_a_heartbeat(alias, configure, make_executor, monkeypatch):
    executor = make_executor(CATEGORIES={"mail": 3, "default": 1}, CATEGORY_ORDER="weighted")
    (engine,) = executor.engines.values()
    engine.node.register()
    executor.pool._queue.closed = False
    seen = []
    monkeypatch.setattr(acquisition, "acquire_jobs", lambda *args, **options: seen.append(args[3]) or Acquisition())
    engine.acquisitions[alias].run_once()
    assert seen[0].turns.merge({"default": [1, 2], "mail": [3, 4]}, 1) == [3]
    assert engine.node.renew()
    engine.acquisitions[alias].run_once()
    assert seen[1].turns is seen[0].turns
