"""One executor that serves several engines: one pool, one lease and one set of loops each."""

import threading

import pytest
from django.db import connections

from jobexec.executor.job_executor import JobExecutor
from jobexec.executor.loops import acquisition
from jobexec.models import ExecutorNode, Job
from jobexec.operations.acquire.acquire import acquire_jobs
from tests.support.executor import all_gone
from tests.support.factories import make_job
from tests.support.suite import databases
from tests.support.waiting import TIMEOUT, passed, threads, until

ALIASES = sorted({database.alias for database in databases.covered.values()})

pytestmark = [
    pytest.mark.django_db(databases=ALIASES, transaction=True),
    pytest.mark.skipif(len(ALIASES) < 2, reason="only one database is covered"),
]


@pytest.fixture
def executor(configure):
    configure({"WAIT_TIME": 0.01, "MAX_WAIT": 0.1, "MAX_WAIT_WHEN_LISTENING": 0.1}, THREADS=2, QUEUE_SIZE=4)
    executor = JobExecutor()
    yield executor
    executor.stop(TIMEOUT)
    until(lambda: not threads())


@pytest.mark.gate
def test_jobs_of_all_engines_run_in_one_pool(executor, handle):
    seen = []
    handle(seen.append, name="tests.note")
    for alias in connections:
        for _ in range(20):
            make_job(alias, handler_type="tests.note", handler_configuration={"args": [alias], "kwargs": {}})
    executor.start()
    assert {alias: ExecutorNode.objects.using(alias).count() for alias in connections} == dict.fromkeys(connections, 1)
    assert len(threads("jobexec-worker")) == 2
    until(lambda: len(seen) == 20 * len(list(connections)))
    until(lambda: all(map(all_gone, connections)))
    assert executor.stop()
    assert {alias: ExecutorNode.objects.using(alias).count() for alias in connections} == dict.fromkeys(connections, 0)


@pytest.mark.gate
def test_an_engine_that_is_away_does_not_hold_up_the_others(executor, handle, monkeypatch):
    away, here = list(connections)[:2]
    done = threading.Event()
    handle(done.set, name="tests.done")
    executor.start()
    for loop in executor.engines[away]._loops:
        monkeypatch.setattr(loop, "run_once", lambda: 1 / 0)
    make_job(here, handler_type="tests.done")
    passed(done)
    assert executor.engines[away].node.good


@pytest.mark.gate
def test_an_engine_whose_database_hangs_keeps_its_places_and_no_more(executor, handle, monkeypatch):
    """Neither an error nor an answer: its acquisition holds on to what it has reserved."""
    hangs, here = list(connections)[:2]
    gate, hanging, done = threading.Event(), threading.Event(), []

    def acquire(using, *args, **kwargs):
        if using == hangs:
            hanging.set()
            assert gate.wait(TIMEOUT)
        return acquire_jobs(using, *args, **kwargs)

    monkeypatch.setattr(acquisition, "acquire_jobs", acquire)
    handle(done.append, name="tests.note")
    executor.start()
    passed(hanging)
    for number in range(40):
        make_job(here, handler_type="tests.note", handler_configuration={"args": [number], "kwargs": {}})
    try:
        until(lambda: len(done) == 40)
    finally:
        gate.set()


@pytest.mark.gate
def test_an_engine_with_a_lot_to_do_leaves_room_for_the_other(executor, handle):
    busy, quiet = list(connections)[:2]
    done, gate = threading.Event(), threading.Semaphore(0)
    handle(lambda: gate.acquire(timeout=TIMEOUT), name="tests.slow")
    handle(done.set, name="tests.done")
    for _ in range(40):
        make_job(busy, handler_type="tests.slow")
    executor.start()
    until(lambda: executor.pool.load()["busy_threads"] == 2 and executor.pool.load()["queued_jobs"] > 1)
    make_job(quiet, handler_type="tests.done")
    until(lambda: any(job.using == quiet for job in executor.pool.jobs_in_hand()))
    gate.release()
    passed(done)  # the next turn is the other's
    gate.release(40)


def test_engines_that_are_not_served_are_let_alone(handle, configure):
    from jobexec.conf import get_settings

    configure()
    first, second = list(connections)[:2]
    executor = JobExecutor(get_settings().replace(engines=[first]))
    handle(lambda: None, name="tests.nothing")
    for alias in (first, second):
        make_job(alias, handler_type="tests.nothing")
    try:
        executor.start()
        until(lambda: all_gone(first))
    finally:
        executor.stop()
    assert Job.objects.using(second).get().lock_owner is None
