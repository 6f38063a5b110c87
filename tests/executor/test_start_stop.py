"""Start and stop of a whole executor: in order, twice, from several threads, with work in hand, without leaks."""

import threading
from contextlib import suppress

import pytest
from django.db import OperationalError, connections, transaction

from jobexec.exceptions import NodeRefused
from jobexec.executor.job_executor import JobExecutor
from jobexec.executor.nodes.node import Node
from jobexec.models import ExclusiveLock, ExecutorNode, Job
from tests.support.executor import all_gone
from tests.support.factories import make_job, tables_of
from tests.support.threads import clients
from tests.support.waiting import TIMEOUT, passed, threads, until

pytestmark = pytest.mark.transactional


@pytest.fixture
def gate(handle):
    """A handler `tests.wait` that runs until the gate opens."""
    gate = threading.Event()
    gate.entered = threading.Semaphore(0)

    def wait(context):
        gate.entered.release()
        gate.context = context
        assert gate.wait(TIMEOUT)

    handle(wait, name="tests.wait", takes_context=True)
    yield gate
    gate.set()


def nodes(alias):
    return ExecutorNode.objects.using(alias)


@pytest.mark.gate
def test_runs_what_there_is_and_what_comes(alias, make_executor, handle):
    done = []
    handle(done.append, name="tests.note")
    for number in range(30):
        instance = f"order-{number % 3}" if number % 2 else ""
        make_job(
            alias,
            handler_type="tests.note",
            handler_configuration={"args": [number], "kwargs": {}},
            process_instance_id=instance,
        )
    executor = make_executor()
    executor.start()
    until(lambda: len(done) == 30)
    make_job(alias, handler_type="tests.note", handler_configuration={"args": [30], "kwargs": {}})
    until(lambda: len(done) == 31)
    until(lambda: executor.idle and all_gone(alias))
    assert executor.stop()
    assert sorted(done) == list(range(31))
    assert not (nodes(alias).exists() or ExclusiveLock.objects.using(alias).exists())


def test_a_failed_job_is_run_again_when_it_is_due(alias, make_executor, handle):
    runs = []

    def fail_twice():
        runs.append(1)
        if len(runs) < 3:
            raise ValueError("not yet")

    handle(fail_twice, name="tests.flaky", retries="R5/PT0.05S")
    make_job(alias, handler_type="tests.flaky", retries=5)
    executor = make_executor()
    executor.start()
    until(lambda: len(runs) == 3 and all_gone(alias))


@pytest.mark.gate
def test_may_be_started_and_stopped_twice_and_again(alias, make_executor, handle):
    done = threading.Event()
    handle(done.set, name="tests.done")
    executor = make_executor()
    assert executor.stop() is True
    for _ in range(2):
        executor.start()
        executor.start()
        assert nodes(alias).count() == 1
        assert executor.stop() is True
        assert executor.stop() is True
        assert (nodes(alias).count(), threads()) == (0, [])
    executor.start()
    make_job(alias, handler_type="tests.done")
    passed(done)
    assert executor.engines[alias].node._draining is False


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.databases("sqlite", "postgresql")
def test_starting_and_stopping_from_several_threads_leaks_nothing(alias, make_executor, monkeypatch):
    _stress(alias, make_executor, monkeypatch, times=20)


@pytest.mark.gate
def test_starting_and_stopping_at_the_same_time_leaks_nothing(alias, make_executor, monkeypatch):
    _stress(alias, make_executor, monkeypatch, times=6)


def _stress(alias, make_executor, monkeypatch, times):
    executor = make_executor(THREADS=2)
    errors, before = [], clients(alias)

    def stress(number):
        try:
            for turn in range(times):
                (executor.start if (turn + number) % 2 else executor.stop)()
        except BaseException as error:
            errors.append(error)
        finally:
            connections.close_all()

    stressing = [threading.Thread(target=stress, args=(number,)) for number in range(4)]
    for thread in stressing:
        thread.start()
    for thread in stressing:
        thread.join(100)
    assert executor.stop()
    assert (errors, threads(), nodes(alias).count()) == ([], [], 0)
    with suppress(AssertionError):
        until(lambda: clients(alias).keys() <= before.keys())  # servers take a moment to see that a client is gone
    assert {number: what for number, what in clients(alias).items() if number not in before} == {}


def test_stops_acquisition_first_and_the_lease_last(alias, make_executor, monkeypatch):
    executor = make_executor()
    engine, order = executor.engines[alias], []

    def note(name, service, method="stop"):
        real = getattr(service, method)
        monkeypatch.setattr(service, method, lambda *args: (order.append(name), real(*args))[1])

    note("acquisition", engine.acquisitions[alias])
    for name in ("timers", "recovery", "heartbeat", "settlement"):
        note(name, getattr(engine, name))
    note("pool", executor.pool)
    note("row", engine.node, "leave")
    executor.start()
    assert executor.stop()
    assert order == ["acquisition", "timers", "recovery", "pool", "settlement", "heartbeat", "row"]


def test_a_slow_job_keeps_its_lock_while_stopping_and_counts(alias, make_executor, gate):
    executor = make_executor(THREADS=1, QUEUE_SIZE=9)
    rows = [make_job(alias, handler_type="tests.wait", process_instance_id=f"order-{number}") for number in range(4)]
    executor.start()
    assert gate.entered.acquire(timeout=TIMEOUT)
    until(lambda: len(executor.pool.jobs_in_hand()) == 4)
    results = []
    stopping = threading.Thread(target=lambda: results.append(executor.stop()))
    stopping.start()
    until(lambda: Job.objects.using(alias).exclude(lock_owner=None).count() == 1)
    assert gate.context.shutting_down
    gate.context.check_lease()
    assert Job.objects.using(alias).exclude(lock_owner=None).get().lock_owner == executor.engines[alias].node.owner
    assert not results
    gate.set()
    stopping.join(TIMEOUT)
    assert results == [True]
    assert len(tables_of(alias)) == 3
    for row in Job.objects.using(alias).all():
        assert (row.lock_owner, row.lost_runs, row.retries, row.attempts) == (None, 0, 3, 0)
    assert gate.context.id in {row.pk for row in rows} - set(tables_of(alias))


@pytest.mark.gate
def test_what_could_not_be_given_back_is_acquirable_after_a_new_start(alias, make_executor, gate, monkeypatch):
    """The lease goes on, so recovery would never find it."""

    def away(*args):
        raise OperationalError("the database is away")

    for _ in range(3):
        make_job(alias, handler_type="tests.wait")
    executor = make_executor({"WAIT_TIME": 0.01, "MAX_WAIT": 0.05, "MAX_WAIT_WHEN_LISTENING": 0.05}, THREADS=1)
    executor.start()
    assert gate.entered.acquire(timeout=TIMEOUT)
    until(lambda: len(executor.pool.jobs_in_hand()) == 3)
    with monkeypatch.context() as patched:
        patched.setattr("jobexec.executor.job_executor.release_jobs", away)
        assert executor.stop(0) is False
    executor.start()
    gate.set()
    until(lambda: all_gone(alias))


@pytest.mark.gate
def test_a_job_that_outlasts_the_grace_period_keeps_its_lock_and_the_node_its_row(alias, make_executor, gate):
    make_job(alias, handler_type="tests.wait")
    executor = make_executor(THREADS=1)
    executor.start()
    assert gate.entered.acquire(timeout=TIMEOUT)
    assert executor.stop(0) is False
    (node,) = nodes(alias).all()
    assert Job.objects.using(alias).get().lock_owner == node.lock_owner
    assert not threads("jobexec-heartbeat")
    gate.set()
    until(lambda: not threads())
    executor.start()  # the same process goes on: what ended meanwhile counts after all
    until(lambda: all_gone(alias))
    assert executor.stop()
    assert not nodes(alias).exists()


def test_what_cannot_start_is_stopped_and_the_reason_raised(alias, make_executor, monkeypatch):
    executor = make_executor()
    monkeypatch.setattr(executor.engines[alias].recovery, "start", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        executor.start()
    assert (threads(), nodes(alias).count()) == ([], 0)
    monkeypatch.undo()
    executor.start()
    assert executor.stop()


@pytest.mark.databases("sqlite")
def test_a_second_executor_on_sqlite_is_refused(alias, make_executor):
    make_executor().start()
    second = JobExecutor()
    with pytest.raises(NodeRefused, match="one executor at a time"):
        second.start()
    assert nodes(alias).count() == 1


@pytest.mark.databases("postgresql", "mariadb")
def test_an_open_transaction_of_whoever_starts_it_does_not_hide_the_node(alias, make_executor):
    executor = make_executor()
    with pytest.raises(ZeroDivisionError), transaction.atomic(alias):
        executor.start()
        assert 1 / 0
    assert nodes(alias).count() == 1
    executor.stop()
    assert nodes(alias).count() == 0


def test_without_a_database_it_stops_all_the_same(alias, make_executor, monkeypatch, caplog):
    executor = make_executor()
    executor.start()

    def away(self):
        raise OperationalError("could not connect")

    monkeypatch.setattr(Node, "leave", away)
    assert executor.stop()
    assert "its lease will expire" in caplog.text
    assert threads() == []
    nodes(alias).all().delete()
