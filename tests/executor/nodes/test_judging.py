"""Who was cut off from the database itself leaves the others alone until they had time to come back."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db import OperationalError

from jobexec.clock import FrozenClock
from jobexec.conf import get_settings
from jobexec.executor.loops.recovery import Recovery
from jobexec.executor.nodes.lease_judgement import LeaseJudgement
from jobexec.executor.nodes.node import Node
from jobexec.models import ExecutorNode, Job, NodeState
from jobexec.operations.nodes import leases
from tests.support.factories import acquire, make_job

pytestmark = pytest.mark.databases("postgresql", "mariadb")  # SQLite bears one node

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
INTERVAL, LEASE = 10, 30


@pytest.fixture(autouse=True)
def frozen():
    with FrozenClock(NOW) as clock:
        yield clock


@pytest.fixture
def nodes(alias, configure, frozen):
    """Two nodes that have been well for longer than a lease; the second one has a job in hand."""
    configure(HEARTBEAT_INTERVAL=INTERVAL, LEASE_TIME=LEASE)
    settings = get_settings()
    found = [Node(settings, settings.engine(alias), dict) for _ in range(2)]
    for node in found:
        node.register()
    live(found, frozen, 2 * LEASE)
    make_job(alias)
    acquire(alias, found[1].owner)
    return found


def live(nodes, frozen, seconds):
    """Let so much time pass, with the heartbeats of these nodes and a look of the first one at the others."""
    for _ in range(seconds // INTERVAL):
        frozen.tick(INTERVAL)
        for node in nodes:
            node.renew()
        Recovery(nodes[0], lambda: None).run_once()


def states(alias):
    return set(ExecutorNode.objects.using(alias).values_list("state", flat=True))


@pytest.mark.gate
def test_whoever_is_back_first_after_an_outage_does_not_declare_the_others_dead(alias, nodes, frozen):
    first, second = nodes
    frozen.tick(LEASE + 2)
    live([first], frozen, LEASE - INTERVAL)
    assert (states(alias), first.may_judge) == ({NodeState.ACTIVE}, False)
    second.renew()
    live(nodes, frozen, 3 * LEASE)
    assert states(alias) == {NodeState.ACTIVE}
    assert Job.objects.using(alias).get().lock_owner == second.owner


@pytest.mark.gate
def test_a_node_that_does_not_come_back_is_declared_dead_after_a_lease(alias, nodes, frozen):
    first, second = nodes
    frozen.tick(LEASE + 2)
    live([first], frozen, LEASE + INTERVAL)
    assert Job.objects.using(alias).get().lock_owner is None
    assert [row.lock_owner for row in ExecutorNode.objects.using(alias).all()] == [first.owner]
    assert second.renew() is False


@pytest.mark.gate
def test_without_an_outage_a_dead_node_waits_for_the_end_of_its_lease_only(alias, nodes, frozen):
    live(nodes[:1], frozen, LEASE)
    assert Job.objects.using(alias).get().lock_owner == nodes[1].owner
    live(nodes[:1], frozen, INTERVAL)
    assert Job.objects.using(alias).get().lock_owner is None


@pytest.mark.gate
def test_an_outage_shorter_than_the_lease_counts_too(alias, nodes, frozen, monkeypatch):
    """The second node's lease runs out in an outage that the first one's survives."""
    first, second = nodes
    live([first], frozen, INTERVAL)
    away = pytest.MonkeyPatch()

    def fail(*arguments, **more):
        raise OperationalError("the server closed the connection unexpectedly")

    away.setattr(leases, "renew_lease", fail)
    frozen.tick(LEASE - INTERVAL + 1)
    with pytest.raises(OperationalError):
        first.renew()
    away.undo()
    assert first.good
    first.renew()
    Recovery(first, lambda: None).run_once()
    second.renew()
    assert Job.objects.using(alias).get().lock_owner == second.owner


@pytest.mark.gate
def test_a_node_that_has_just_begun_leaves_the_others_alone(alias, nodes, frozen):
    frozen.tick(LEASE + 2)
    settings = get_settings()
    third = Node(settings, settings.engine(alias), dict)
    third.register()
    Recovery(third, lambda: None).run_once()
    assert states(alias) == {NodeState.ACTIVE}
    live([third], frozen, LEASE + INTERVAL)
    assert [row.lock_owner for row in ExecutorNode.objects.using(alias).all()] == [third.owner]


@pytest.mark.gate
def test_what_another_has_declared_dead_is_recovered_at_once(alias, nodes):
    ExecutorNode.objects.using(alias).filter(lock_owner=nodes[1].owner).update(state=NodeState.DEAD)
    nodes[0]._judging._since = float("inf")
    Recovery(nodes[0], lambda: None).run_once()
    assert Job.objects.using(alias).get().lock_owner is None


@pytest.mark.gate
@pytest.mark.parametrize("hours", [-1, 1])
def test_a_step_of_the_databases_clock_lets_nobody_die(alias, nodes, frozen, monkeypatch, hours):
    """Back: the others' new leases look old to whoever has not read the time since. On: their old ones do."""
    first, second = nodes
    step = timedelta(hours=hours)
    if hours < 0:
        leases_of = ExecutorNode.objects.using(alias).filter(lock_owner=second.owner)
        leases_of.update(lease_expiration_time=frozen.now + step + timedelta(seconds=LEASE))
        monkeypatch.setattr(leases, "time_of", lambda using: frozen.now + step)
        Recovery(first, lambda: None).run_once()
    else:
        real = leases.renew_lease
        renewed = lambda *args, **more: leases.Renewal(real(*args, **more).answers, step)  # noqa: E731
        with monkeypatch.context() as stepped:
            stepped.setattr(leases, "renew_lease", renewed)
            first.renew()
        ExecutorNode.objects.using(alias).filter(lock_owner=second.owner).update(lease_expiration_time=NOW - step)
        Recovery(first, lambda: None).run_once()
    assert states(alias) == {NodeState.ACTIVE}


def test_a_heartbeat_tells_how_far_the_time_has_jumped(alias, frozen):
    """By real time: the database goes on where it was, and this process believed in another time."""
    from jobexec import clock
    from tests.support.factories import make_node

    frozen.__exit__(None, None, None)
    try:
        node = make_node(alias)
        assert leases.renew_lease(alias, node, timedelta(seconds=LEASE)).step < timedelta(seconds=5)
        clock.synchronise(alias, clock.now(alias) + timedelta(hours=1), clock.monotonic())
        step = leases.renew_lease(alias, node, timedelta(seconds=LEASE)).step
        assert timedelta(minutes=59) < step < timedelta(minutes=61)
    finally:
        clock.forget(alias)
        frozen.__enter__()


@pytest.mark.parametrize(
    ("beats", "allowed"),
    [
        ([10, 20, 31], True),
        ([10, 20], False),  # a lease is thirty seconds
        ([10, 24, 34], True),
        ([10, 26, 36], False),  # one came late
        ([10, 26, 36, 46, 57], True),
    ],
)
def test_each_heartbeat_of_a_lease_must_have_come_in_time(frozen, beats, allowed):
    judging = LeaseJudgement(LEASE, INTERVAL)
    assert not judging.allowed()
    judging.begin()
    for beat in beats:
        frozen.tick(NOW + timedelta(seconds=beat) - frozen.now)
        judging.beat(0.0)
    assert judging.allowed() == allowed
    frozen.tick(16)
    assert not judging.allowed(), "the next one is late"
