"""Resources in an executor: the limit holds, permits are passed on at once, a breaker opens and closes."""

import threading
from datetime import timedelta
from types import SimpleNamespace
from uuid import uuid4

import pytest
from django.db import connections

from jobexec import clock, signals
from jobexec.conf.resources import PROFILES, breaker
from jobexec.executor.loops import follow_ups
from jobexec.executor.loops import promotion as module
from jobexec.executor.loops.promotion import Breakers, call_of
from jobexec.executor.run.outcomes import Outcome
from jobexec.models import BlockedJob, BreakerState, Job, Resource, TimerJob
from jobexec.operations.notify.wake import remove_listener
from jobexec.operations.resources.promote import promote
from jobexec.operations.values.failure import Failure
from jobexec.operations.values.run import Run
from tests.support.executor import all_gone
from tests.support.factories import make_job, make_row, work
from tests.support.gate import Counted
from tests.support.waiting import TIMEOUT, until


@pytest.fixture
def counted(handle):
    counted = Counted()
    handle(counted.run, name="tests.counted")
    yield counted
    counted.gate.set()


def enqueue(alias, count, **columns):
    columns = {"handler_type": "tests.counted", "resource": "pay.example"} | columns
    return [make_job(alias, **columns) for _ in range(count)]


@pytest.mark.transactional
@pytest.mark.every_database
class TestTheLimit:
    def test_never_more_at_once_and_others_go_on(self, alias, make_executor, counted, handle):
        handle(lambda: None, name="tests.other")
        executor = make_executor(RESOURCES={"pay.example": {"limit": 2}})
        enqueue(alias, 7)
        executor.start()
        until(lambda: counted.now == 2)
        other = make_job(alias, handler_type="tests.other")
        until(lambda: not Job.objects.using(alias).filter(pk=other.pk).exists())
        assert Job.objects.using(alias).filter(resource="pay.example").count() == 2
        counted.gate.set()
        until(lambda: all_gone(alias))
        assert (counted.most, counted.done) == (2, 7)

    @pytest.mark.gate
    def test_jobs_that_come_later_and_retries(self, alias, make_executor, counted):
        executor = make_executor(RESOURCES={"pay.example": {"limit": 1}})
        executor.start()
        counted.fails, counted.failing = True, 3
        enqueue(alias, 3, retry_plan="R2/PT0S", retries=2)
        counted.gate.set()  # not earlier: the first could fail twice before the others are there
        until(lambda: all_gone(alias))
        assert (counted.most, counted.done) == (1, 6)

    def test_atomic_jobs(self, alias, make_executor, counted):
        executor = make_executor(RESOURCES={"pay.example": {"limit": 1}})
        counted.gate.set()
        enqueue(alias, 5, atomic=True)
        executor.start()
        until(lambda: all_gone(alias))
        assert (counted.most, counted.done) == (1, 5)


@pytest.mark.transactional
def test_a_permit_that_nobody_passed_on_is_found(alias, make_executor, counted):
    """As after kill -9 between the commit of an outcome and the promotion: no notification tells of it."""
    executor = make_executor(RESOURCES={"pay.example": {"limit": 1}})
    executor.start()
    counted.gate.set()
    enqueue(alias, 1)
    until(lambda: counted.done == 1)
    engine = executor.engines[alias]
    promotion, engine.promotion = engine.promotion, None  # deaf to what is enqueued
    enqueue(alias, 1)
    engine.promotion = promotion
    engine.looked(frozenset({"blocked_jobs"}))
    until(lambda: counted.done == 2)


@pytest.fixture
def changes():
    """What was said of breakers, as (name, state)."""
    told = []

    def hear(name, state, **others):
        told.append((name, state))

    signals.breaker_changed.connect(hear)
    yield told
    signals.breaker_changed.disconnect(hear)


@pytest.mark.transactional
class TestTheBreaker:
    @pytest.mark.gate
    def test_it_opens_tries_and_closes(self, alias, make_executor, counted, changes):
        profile = {"minimum_calls": 3, "window": 10, "wait": 0.5, "trial_calls": 2}
        executor = make_executor(RESOURCES={"pay.example": {"limit": 1, "breaker": profile}})
        counted.fails = True
        counted.gate.set()
        enqueue(alias, 8, retry_plan="R9/PT0.1S", retries=9)
        executor.start()
        until(lambda: ("pay.example", "open") in changes)
        row = Resource.objects.using(alias).get(pk="pay.example")
        assert "of the last" in row.reason and "no answer from pay.example" in row.reason
        counted.fails = False
        until(lambda: all_gone(alias))
        until(lambda: changes[-1] == ("pay.example", "closed"))
        assert Resource.objects.using(alias).get(pk="pay.example").breaker_state == BreakerState.CLOSED
        assert counted.most == 1

    @pytest.mark.gate
    def test_what_has_not_begun_goes_back(self, alias, make_executor, handle, changes):
        calls, gate = [], threading.Event()

        def call():
            calls.append(1)
            if len(calls) > 1:  # the thread is busy while the outcome of the first call is settled
                assert gate.wait(TIMEOUT)
            raise ConnectionError("no answer")

        handle(call, name="tests.counted")
        profile = {"minimum_calls": 1, "window": 1, "wait": 600}
        executor = make_executor(RESOURCES={"pay.example": {"breaker": profile}}, THREADS=1, QUEUE_SIZE=20)
        enqueue(alias, 6, retry_plan="R9/PT1H", retries=9)
        executor.start()
        until(lambda: changes == [("pay.example", "open")])
        until(lambda: executor.engines[alias].promotion.cut_off)
        gate.set()
        until(lambda: not Job.objects.using(alias).exists())
        assert (TimerJob.objects.using(alias).count(), BlockedJob.objects.using(alias).count()) == (2, 4)
        assert len(calls) == 2


class TwoNodes:
    """`here` serves the category `near` with one thread, `there` the category `far` with three, which are all busy.

    As in two processes, `there` does not hear in its own process what `here` commits, once it is `apart`.
    """

    def __init__(self, alias, configure, make_executor, handle, engine, **keys):
        self.alias, self.begun, self._lock = alias, [], threading.Lock()
        self.free, self.go, self.fails = threading.Event(), threading.Event(), True
        handle(self._call, name="tests.counted")
        handle(self.free.wait, name="tests.busy")
        engine = {"WAIT_TIME": 3600, "MAX_WAIT": 3600, "MAX_WAIT_WHEN_LISTENING": 3600} | engine
        keys = {"HEARTBEAT_INTERVAL": 600, "LEASE_TIME": 1800, "QUEUE_SIZE": 20} | keys
        breaker = {"minimum_calls": 1, "window": 1, "wait": 600, "trial_calls": 2}
        keys["RESOURCES"] = {"pay.example": {"breaker": breaker}}
        self.here = make_executor(engine, NODE_NAME="here", CATEGORIES=["near"], THREADS=1, **keys)
        self.there = make_executor(engine, NODE_NAME="there", CATEGORIES=["far"], THREADS=3, **keys)
        configure(engine, CATEGORIES=["near", "far", "elsewhere"], **keys)

    def _call(self):
        with self._lock:
            self.begun.append(threading.current_thread().name)
        self.go.wait()
        if self.fails:
            raise ConnectionError("no answer from pay.example")

    @property
    def promotion(self):
        """The loop of `there`."""
        return self.there.engines[self.alias].promotion

    def start(self, elsewhere=0):
        """A call of `here` runs, three jobs with permits wait for a thread of `there`, and some for another node."""
        for _ in range(3):
            make_job(self.alias, handler_type="tests.busy", category="far")
        self.there.start()
        until(lambda: self.there.running_jobs == 3)
        enqueue(self.alias, 1, category="near", retry_plan="R9/PT1H", retries=9)
        enqueue(self.alias, 3, category="far")
        enqueue(self.alias, elsewhere, category="elsewhere")
        self.here.start()
        until(lambda: self.begun and self.held() == 3 and self.permits().count() == 4 + elsewhere)

    def apart(self):
        remove_listener(self.there.engines[self.alias].hear)

    def permits(self):
        return Job.objects.using(self.alias).filter(resource="pay.example")

    def held(self):
        return self.permits().filter(category="far").exclude(lock_owner=None).count()

    def blocked(self):
        return BlockedJob.objects.using(self.alias).count()

    def half_open(self):
        """The time comes for trial calls, on both nodes at about the same time."""
        row = Resource.objects.using(self.alias).filter(pk="pay.example")
        row.update(trial_time=clock.now(self.alias))
        self.look()

    def look(self):
        """Both look at the resource."""
        loops = [node.engines[self.alias].promotion for node in (self.here, self.there)]
        since = clock.monotonic()
        for loop in loops:
            loop.ask("pay.example")
        until(lambda: all(loop.succeeded_at > since for loop in loops))


HEARS = {
    "a notification": [{}, {}],
    "a heartbeat": [{"NOTIFY": False}, {"HEARTBEAT_INTERVAL": 0.05}],
    "its next look": [{"NOTIFY": False, "WAIT_TIME": 0.05, "MAX_WAIT": 0.05}, {}],
}


@pytest.mark.transactional
@pytest.mark.gate
@pytest.mark.databases("postgresql", "mariadb")
class TestTheBreakerOfTwoNodes:
    @pytest.fixture
    def make_nodes(self, alias, configure, make_executor, handle):
        made = []

        def make(engine, keys):
            made.append(TwoNodes(alias, configure, make_executor, handle, engine, **keys))
            return made[-1]

        yield make
        for nodes in made:
            nodes.free.set()
            nodes.go.set()

    @pytest.mark.parametrize("by", HEARS)
    def test_the_other_node_begins_no_more_jobs(self, alias, make_nodes, changes, by):
        if by == "a notification" and connections[alias].vendor != "postgresql":
            pytest.skip("no notifications")
        nodes = make_nodes(*HEARS[by])
        # Blocked jobs would make it look; without them, only those that it has in hand do.
        elsewhere = 3 if by == "a notification" else 0
        nodes.start(elsewhere)
        nodes.apart()
        nodes.go.set()
        until(lambda: changes == [("pay.example", "open")])
        until(lambda: nodes.promotion.cut_off == {"pay.example"})
        # Also those that wait there for a thread, while all its threads are busy.
        until(lambda: nodes.blocked() == 3 + elsewhere and not nodes.permits().exists())
        nodes.free.set()
        until(lambda: not nodes.there.running_jobs)
        # It could be there if the process that opened the breaker was killed at this moment.
        late = make_row(Job, alias, handler_type="tests.counted", category="far", resource="pay.example")
        nodes.there.wake()
        until(lambda: BlockedJob.objects.using(alias).filter(pk=late.pk).exists())
        assert len(nodes.begun) == 1

    @pytest.mark.parametrize("missed", ["withdraw", "_recall"])
    def test_then_only_trial_calls_run_on_both_and_success_closes_it_for_both(self, alias, make_nodes, changes, missed):
        nodes = make_nodes(*HEARS["a notification"])
        nodes.start()
        before = getattr(nodes.promotion, missed)
        setattr(nodes.promotion, missed, lambda names: None)
        nodes.go.set()
        until(lambda: changes == [("pay.example", "open")] and nodes.promotion.cut_off)
        nodes.go.clear()
        # As if these had been on their way to the queue, or had waited for the commit of a sibling.
        assert nodes.held() == 3
        nodes.fails = False
        enqueue(alias, 5, category="near")
        nodes.look()
        if missed == "_recall":
            setattr(nodes.promotion, missed, before)
        nodes.half_open()
        nodes.free.set()
        until(lambda: len(nodes.begun) == 3)
        nodes.look()
        assert (nodes.permits().count(), nodes.blocked(), len(nodes.begun)) == (2, 6, 3)
        assert promote(alias, ["pay.example"], 100).moved == 0
        nodes.go.set()
        until(lambda: changes[-1] == ("pay.example", "closed"))
        until(lambda: len(nodes.begun) == 9 and not nodes.permits().exists())
        assert Resource.objects.using(alias).get(pk="pay.example").breaker_state == BreakerState.CLOSED


def test_a_job_that_waited_for_a_heartbeat_begins_only_if_its_resource_still_lets_it(alias, make_executor, monkeypatch):
    executor = make_executor(RESOURCES={"pay.example": {"limit": 2}})
    engine = executor.engines[alias]
    job = SimpleNamespace(using=alias, resource="pay.example", lock_owner="one", id=uuid4(), revision=1)

    def decided(lock_owner, timeout):
        engine.promotion.cut_off = frozenset(cut_off)
        return True

    monkeypatch.setattr(engine.node, "wait_until_decided", decided)
    cut_off = []
    assert executor.may_start(job)
    cut_off = ["pay.example"]
    assert not executor.may_start(job)


class TestWhatCounts:
    @pytest.fixture
    def outcome(self, alias):
        def make(failure=None, duration=0.1, began=True):
            made = Outcome(work(alias), Run(None, duration, "here"), failure)
            made.began = began
            return made

        return make

    def test_success_failure_and_what_is_neither(self, outcome):
        profile = PROFILES["default"]
        assert call_of(outcome(), profile) == ""
        assert call_of(outcome(Failure("ValueError: no\nmore", error=ValueError("no"))), profile) == "ValueError: no"
        for kind in ("snoozed", "interrupted", "cancelled", "unknown", "conflict"):
            assert call_of(outcome(Failure("x", kind=kind)), profile) is None
        assert call_of(outcome(began=False), profile) is None

    def test_exceptions_by_their_bases(self, outcome):
        failure = outcome(Failure("x", error=ConnectionResetError("x")))
        assert call_of(failure, breaker({"counts": ["builtins.OSError"]})) == "x"
        assert call_of(failure, breaker({"counts": ["builtins.ValueError"]})) == ""
        assert call_of(failure, breaker({"ignores": ["builtins.OSError"]})) == ""

    def test_a_slow_call(self, outcome):
        profile = breaker({"slow_call": timedelta(seconds=1)})
        assert call_of(outcome(duration=1.5), profile) == "a call that took 1.5 seconds"
        assert call_of(outcome(duration=0.5), profile) == ""

    def test_the_window(self, configure):
        configure(RESOURCES={"pay.example": {"breaker": {"window": 4, "minimum_calls": 3, "failure_rate": 50}}})
        from jobexec.conf import get_settings

        breakers = Breakers(get_settings().resources)
        profile = breakers.profile_of("pay.example")

        def count(*calls, state="closed"):
            return breakers.count("pay.example", profile, list(calls), state)

        assert count("no", "no") == ""  # fewer than the least number of calls
        assert count("no", state="open") == ""
        assert count("") == "2 of the last 3 calls failed"
        assert count("", "", "no") == ""  # a new window
        assert count("no") == "2 of the last 4 calls failed, the last with no"
        assert count("", state="half open") == ""
        assert count("", "late", state="half open") == "a trial call failed: late"


@pytest.mark.transactional
@pytest.mark.databases("postgresql")
class TestPassedOn:
    """The settlement passes permits on by itself."""

    @pytest.fixture
    def executor(self, alias, make_executor, counted):
        """One whose promotion looks only once: two jobs of a limit of two are running."""
        executor = make_executor(RESOURCES={"pay.example": {"limit": 2}}, THREADS=4)
        enqueue(alias, 9)
        executor.start()
        until(lambda: counted.now == 2)
        loop = executor.engines[alias].promotion
        loop.ask_to_stop()
        until(lambda: not loop.alive)
        return executor

    def left(self, alias, executor):
        """The runs that are left to the loop. Jobs that gave way to an acquisition that had begun are none."""
        return [outcome for outcome in executor.engines[alias].promotion._ended if outcome.began]

    def test_without_the_loop(self, alias, executor, counted):
        counted.gate.set()
        until(lambda: counted.done == 9)
        until(lambda: all_gone(alias))
        assert (counted.most, Resource.objects.using(alias).get().promoted) == (2, 9)

    def test_what_is_not_passed_on_is_left_to_the_loop(self, alias, executor, counted):
        Resource.objects.using(alias).update(hold="open")
        counted.gate.set()
        until(lambda: len(self.left(alias, executor)) == 2)
        assert BlockedJob.objects.using(alias).count() == 7

    def test_an_error_costs_no_outcome(self, alias, executor, counted, monkeypatch, caplog):
        def refuse(*args):
            raise ValueError("no statement")

        monkeypatch.setattr(module, "pass_on", refuse)
        counted.gate.set()
        until(lambda: len(self.left(alias, executor)) == 2)
        assert Job.objects.using(alias).count() == 0
        assert "no statement" in caplog.text

    def test_jobs_for_other_nodes_are_released(self, alias, executor, counted, monkeypatch):
        monkeypatch.setattr(follow_ups.PermitHome, "takes", lambda *args: False)
        counted.gate.set()
        until(lambda: counted.done == 9)  # by acquisition
        until(lambda: all_gone(alias))
        assert counted.most == 2
