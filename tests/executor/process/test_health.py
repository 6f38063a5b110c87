"""What an executor says about itself, and that its own wish ends it."""

import threading
from types import SimpleNamespace

import pytest

from jobexec.clock import FrozenClock
from jobexec.executor.process import health as module
from jobexec.executor.process.health import Health, Reporter
from jobexec.executor.process.shutdown import EXIT_DRAINED, EXIT_RECYCLED, Shutdown, serve
from jobexec.models import ExecutorNode
from tests.support.factories import make_job
from tests.support.threads import finish, start
from tests.support.waiting import TIMEOUT, passed, until

pytestmark = [pytest.mark.transactional, pytest.mark.databases("sqlite", "postgresql")]


@pytest.fixture
def running(make_executor):
    """A started executor and its health."""
    executor = make_executor(LEASE_TIME=60)
    health = Health(executor)
    before = health.report()
    assert (before.startup, before.ready, before.live) == (
        ["the executor is starting"],
        ["the executor is starting"],
        [],
    )
    executor.start()
    health.begin(lambda: None)
    return executor, health


def test_serving_and_draining(alias, running):
    executor, health = running
    report = health.report()
    assert (report.startup, report.ready, report.live, report.draining) == ([], [], [], False)
    assert report.status == f"Ready: {alias}"
    lease = report.details["engines"][alias]
    assert (lease["lease_holds"], 0 < lease["lease_seconds_left"] <= 60) == (True, True)
    health.drain()
    executor.stop(TIMEOUT)
    report = health.report()
    assert (report.startup, report.ready, report.live, report.draining) == ([], ["draining"], [], True)


def test_a_drain_without_end_is_no_life(alias, make_executor):
    health = Health(make_executor(GRACE_PERIOD=10))
    with FrozenClock() as clock:
        health.drain()
        clock.tick(69)
        assert health.report().live == []
        clock.tick(2)
        assert health.report().live == ["draining takes more than 70 s"]


def test_finished_jobs_are_counted(alias, running, handle):
    _, health = running
    handle(lambda: None, name="tests.counted")
    for _ in range(3):
        make_job(alias, handler_type="tests.counted")
    until(lambda: health.report().details["done_jobs"] == 3)


def test_threads_that_have_ended_are_named(alias, running):
    executor, health = running
    engine = executor.engines[alias]
    assert engine.timers.stop(TIMEOUT)
    assert engine.history.stop(TIMEOUT)
    assert engine.settlement.stop(TIMEOUT)
    assert health.report().live == [
        f"the thread jobexec-timers-{alias} has ended",
        f"the thread jobexec-history-{alias} has ended",
        f"the settlement of {alias} has ended",
    ]
    assert executor.pool.stop(TIMEOUT)
    assert health.report().live[-1] == "no worker thread is left"


def loop(name, began=None, succeeded=0.0, alive=True):
    return SimpleNamespace(name=name, round_began=began, succeeded_at=succeeded, alive=alive)


@pytest.mark.parametrize(
    ("began", "answered", "expected"),
    [
        (None, 1000.0, []),
        (900.0, 1000.0, []),  # a long round, but not too long
        (100.0, 101.0, []),  # nobody gets an answer: the database is away
        (100.0, 401.0, ["the thread acquisition has been blocked for 900 s"]),  # the others do
    ],
)
def test_a_loop_that_stands_still_while_others_get_answers(alias, began, answered, expected):
    engine = SimpleNamespace(
        using=alias,
        heartbeat=loop("heartbeat", succeeded=answered),
        acquisitions={"default": loop("acquisition", began, succeeded=50.0)},
        timers=loop("timers"),
        recovery=loop("recovery"),
        suspensions=loop("suspensions"),
        history=loop("history"),
        cleanup=loop("cleanup", succeeded=999.0),
        meters=loop("meters"),
        settlements=[SimpleNamespace(alive=True)],
    )
    with FrozenClock() as clock:
        clock._monotonic = 1000.0
        assert list(module._engine_stands_still(engine)) == expected


def test_rounds_of_loops_leave_their_times(alias, running):
    executor, _ = running
    acquisition = executor.engines[alias].acquisitions[alias]
    until(lambda: acquisition.succeeded_at > 0)
    until(lambda: acquisition.round_began is None)
    before = acquisition.succeeded_at
    acquisition.wake()
    until(lambda: acquisition.succeeded_at > before)


def test_the_monitor_tells_all_who_listen_at_once_when_there_is_news(alias, running):
    _, health = running
    first, second = [], []
    monitor = Reporter(health, [first.append, second.append], 3600)
    woken = []
    health.begin(lambda: (woken.append(1), monitor.wake()))
    monitor.start()
    try:
        until(lambda: len(second) >= 1)
        health.ask("it is old")
        until(lambda: second and second[-1].wish == "it is old")
        health.ask("it is old")
        assert len(woken) == 2, "at the beginning and for the wish; said again it is no news"
        health.drain()
        until(lambda: first[-1].draining and second[-1].draining)
        assert len(woken) == 3
        assert len(first) <= 4, "one report for each, and one at the start"
    finally:
        assert monitor.stop(TIMEOUT)


@pytest.fixture
def in_flight(alias, handle):
    """A function that waits until a job runs; the job ends when what it returns is set."""
    begun, go = threading.Event(), threading.Event()

    def waits():
        begun.set()
        go.wait(TIMEOUT)

    def begin():
        handle(waits)
        make_job(alias, handler_type="tests.waits")
        passed(begun)
        return go

    yield begin
    go.set()


@pytest.mark.gate
def test_a_reason_of_the_executor_drains_it_and_ends_with_5(alias, running, in_flight):
    executor, health = running
    go = in_flight()
    said = []
    reasons = [lambda: None, lambda: executor.restart_reason]
    ending = start(alias, lambda: serve(executor, Shutdown(), None, said.append, health, reasons))
    executor.restart_reason = "three threads are stuck"
    until(lambda: said)
    assert said == ["Restarting, because three threads are stuck. Draining. Running jobs: 1."]
    assert health.report().draining
    go.set()
    assert finish(ending) == EXIT_RECYCLED == 5
    assert said[1:] == ["Drained."]
    assert not ExecutorNode.objects.using(alias).exists()


@pytest.mark.parametrize(("signalled", "grace", "code"), [(True, 10, EXIT_DRAINED), (False, 0, EXIT_RECYCLED)])
def test_other_ends_of_a_recycle(alias, make_executor, in_flight, signalled, grace, code):
    executor = make_executor(GRACE_PERIOD=grace)
    executor.start()
    go = in_flight()
    said, shutdown = [], Shutdown()
    executor.restart_reason = "it is old"
    ending = start(alias, lambda: serve(executor, shutdown, None, said.append, None, [lambda: executor.restart_reason]))
    until(lambda: said)
    if signalled:
        shutdown._on_signal(15, None)
        go.set()
    assert finish(ending) == code
