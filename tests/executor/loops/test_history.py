"""History that is recorded is written by the executors' own loop, exactly once."""

import threading
from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.auth.models import Group
from django.db import connections, transaction

from jobexec import HistoryRecord, history_handler, record_history
from jobexec.clock import FrozenClock
from jobexec.conf import get_settings
from jobexec.exceptions import DuplicateHandler, HandlerNotFound, InvalidJob
from jobexec.executor.job_executor import JobExecutor
from jobexec.executor.loops.history import HistoryWriting
from jobexec.executor.nodes.node import Node
from jobexec.handlers import registry
from jobexec.models import DeadLetterJob, HistoryJob
from jobexec.operations import requeue
from jobexec.operations.notify.wake import EVERYTHING, HISTORY, JOBS, TIMERS
from jobexec.operations.reports.pending import pending
from jobexec.runtime.threads import call_in_thread
from tests.support.factories import make_job
from tests.support.waiting import TIMEOUT, passed, until

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def audit():
    """A handler that writes a Group for each record, until the test ends."""
    with registry.isolated():

        @history_handler("tests.audit")
        def write(records: list[HistoryRecord]) -> None:
            rows = [Group(name=record.data) for record in records]
            Group.objects.using(records[0].using).bulk_create(rows)

        yield write


def written(alias):
    return sorted(Group.objects.using(alias).values_list("name", flat=True))


# -- handlers --------------------------------------------------------------------------------------------------


def test_a_handler_has_a_name_of_its_own(audit):
    assert registry.get_history_handler("tests.audit").function is audit
    with pytest.raises(DuplicateHandler, match=r"'tests\.audit' is the name of two history handlers"):
        history_handler("tests.audit")(lambda records: None)
    with pytest.raises(HandlerNotFound, match=r"No history handler 'tests\.other'"):
        registry.get_history_handler("tests.other")


def test_the_handlers_of_jobs_are_others(audit, handle):
    handle(lambda: None, name="tests.audit")
    with pytest.raises(HandlerNotFound):
        registry.get_handler("tests.other")


@pytest.mark.parametrize("name", ["", None, "x" * 256, "a\x00"])
def test_a_name_must_be_one(name):
    with pytest.raises(InvalidJob, match="@history_handler"):
        history_handler(name)


def test_an_async_function_is_refused():
    async def write(records):
        """Nothing."""

    with pytest.raises(InvalidJob, match="must not be an async function"):
        history_handler("tests.async")(write)


def test_the_waits_double_up_to_an_hour(audit, configure):
    configure(HISTORY_JOB_RETRIES=20, HISTORY_JOB_WAIT=60)
    plan = registry.get_history_handler("tests.audit").retry_plan
    assert plan.attempts == 20
    waits = [plan.delay(failures).total_seconds() for failures in (1, 2, 3, 7, 19)]
    for wait, longest in zip(waits, (60, 120, 240, 3600, 3600), strict=True):
        assert 0.5 * longest < wait <= longest
    configure(HISTORY_JOB_WAIT=7200)
    assert registry.get_history_handler("tests.audit").retry_plan.delay(5).total_seconds() <= 7200


# -- the loop --------------------------------------------------------------------------------------------------


@pytest.fixture
def frozen():
    with FrozenClock(NOW) as clock:
        yield clock


@pytest.fixture
def loop(alias, frozen, audit):
    settings = get_settings()
    node = Node(settings, settings.engine(alias), dict)
    node.register()
    return HistoryWriting(node)


def test_sleeps_until_the_next_one_is_due(alias, loop, frozen, django_assert_num_queries):
    with django_assert_num_queries(1, using=alias):
        assert loop.run_once() == pytest.approx(300.0)
    record_history("tests.audit", "a", using=alias)
    HistoryJob.objects.using(alias).update(due_date=NOW + timedelta(seconds=3.25))
    assert loop.run_once() == pytest.approx(3.25)
    frozen.tick(3.25)
    assert loop.run_once() == pytest.approx(300.0)
    assert written(alias) == ["a"]


def test_a_full_page_waits_for_nothing(alias, loop, monkeypatch):
    monkeypatch.setattr("jobexec.executor.loops.history._PAGE", 2)
    for name in "abc":
        record_history("tests.audit", name, using=alias)
    assert loop.run_once() == 0.0
    assert loop.run_once() == pytest.approx(300.0)
    assert written(alias) == ["a", "b", "c"]


def test_a_handler_finds_nothing_of_the_one_before(alias, loop):
    from django.utils import timezone

    seen = []

    @history_handler("tests.zone")
    def write(records):
        seen.append(timezone.get_current_timezone_name())
        timezone.activate("Asia/Tokyo")

    for _ in range(2):
        record_history("tests.zone", 1, using=alias)
        loop.run_once()
    assert seen == ["UTC", "UTC"]


def test_a_handler_that_fails_is_tried_again_as_the_settings_say(alias, loop, frozen, configure):
    @history_handler("tests.broken")
    def write(records):
        raise ValueError("no")

    record_history("tests.broken", 1, using=alias)
    assert 5.0 < loop.run_once() <= 10.0
    for _ in range(9):
        frozen.tick(3600)
        loop.run_once()
    dead = DeadLetterJob.objects.using(alias).get()
    assert (dead.attempts, dead.exception_message) == (10, "ValueError: no")
    requeue(dead, using=alias)
    loop.run_once()
    assert HistoryJob.objects.using(alias).get().retries == 2


def test_what_is_recorded_is_due_until_it_is_written(alias, loop, frozen):
    def empty():
        return pending(alias, loop.node.scopes).empty

    assert empty()
    record_history("tests.audit", "a", using=alias)
    assert not empty()
    loop.run_once()
    assert empty()


# -- wake-ups --------------------------------------------------------------------------------------------------


def test_word_of_history_concerns_its_loop_alone(alias, frozen):
    engine = JobExecutor().engines[alias]
    woken = set()
    loops = {"acquisition": engine.acquisitions[alias], "timers": engine.timers, "history": engine.history}
    for name, loop in loops.items():
        loop.wake = lambda name=name: woken.add(name)

    def heard(content):
        woken.clear()
        engine.heard(content)
        return set(woken)

    assert heard(HISTORY) == {"history"}
    assert heard(JOBS) == {"acquisition"}
    assert heard(TIMERS) == {"timers"}
    assert heard(EVERYTHING) == heard("of another release") == {"acquisition", "timers", "history"}


def test_the_heartbeat_sees_history_that_nobody_told_of(alias, frozen):
    engine = JobExecutor().engines[alias]
    engine.node.register()
    woken = []
    engine.history.wake = lambda: woken.append(1)
    engine.heartbeat.run_once()
    assert woken == []
    record_history("tests.audit", "a", using=alias)
    engine.heartbeat.run_once()
    assert woken == [1]


@pytest.mark.gate
@pytest.mark.transactional
def test_an_executor_writes_at_once_what_is_recorded_beside_it_and_in_its_jobs(alias, make_executor, audit, handle):
    handle(lambda: record_history("tests.audit", "from a job", using=alias), name="tests.job", atomic=True)
    executor = make_executor()
    executor.start()
    until(lambda: executor.engines[alias].history.succeeded_at)
    with transaction.atomic(using=alias):
        record_history("tests.audit", "a", "b", using=alias)
        make_job(alias, handler_type="tests.job")
    until(lambda: written(alias) == ["a", "b", "from a job"])
    until(lambda: not HistoryJob.objects.using(alias).exists())


# -- two nodes -------------------------------------------------------------------------------------------------


@pytest.mark.gate
@pytest.mark.transactional
@pytest.mark.databases("postgresql", "mariadb")  # on SQLite one writes after the other
def test_two_nodes_share_the_work_and_write_each_record_once(alias, audit):
    for number in range(250):
        record_history("tests.audit", f"{number}", using=alias)
    settings = get_settings()
    both, errors = threading.Barrier(2, timeout=TIMEOUT), []

    def work():
        loop = HistoryWriting(Node(settings, settings.engine(alias), dict))
        both.wait()
        try:
            while HistoryJob.objects.using(alias).exists():
                loop.run_once()
        except BaseException as error:
            errors.append(error)
        finally:
            connections[alias].close()

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT)
    assert errors == []
    assert written(alias) == sorted(f"{number}" for number in range(250))


@pytest.mark.transactional
@pytest.mark.databases("postgresql", "mariadb")
def test_a_page_in_the_hands_of_another_node_is_passed_over(alias, audit):
    settings = get_settings()
    begun, go = threading.Event(), threading.Event()

    @history_handler("tests.slow")
    def write(records):
        begun.set()
        passed(go)

    def loop():
        return HistoryWriting(Node(settings, settings.engine(alias), dict))

    record_history("tests.slow", 1, using=alias)
    slow = threading.Thread(target=lambda: call_in_thread("slow", loop().run_once, TIMEOUT))
    slow.start()
    try:
        passed(begun)
        record_history("tests.audit", "a", using=alias)
        call_in_thread("other", loop().run_once, TIMEOUT)
        assert written(alias) == ["a"]
        assert HistoryJob.objects.using(alias).count() == 1
        waits = []
        call_in_thread("again", lambda: waits.append(loop().run_once()), TIMEOUT)
        assert waits == [0.5], "it is due, but there is nothing to do"
    finally:
        go.set()
        slow.join(TIMEOUT)
    assert not HistoryJob.objects.using(alias).exists()
