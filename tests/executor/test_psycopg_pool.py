"""The executor with psycopg's pool, Django's OPTIONS["pool"]."""

import threading

import pytest
from django.db import connections, transaction

from jobexec.conf import get_settings
from jobexec.models import Job, JobLog, TimerJob
from jobexec.runtime.connection_count import ordinary_connections
from tests.support.executor import all_gone
from tests.support.factories import make_job
from tests.support.machines.rerouted import rerouted
from tests.support.threads import clients
from tests.support.waiting import TIMEOUT, passed, until

pytest.importorskip("psycopg_pool", reason="psycopg_pool is not installed")
pytestmark = [pytest.mark.transactional, pytest.mark.databases("postgresql")]

THREADS = 4
QUICK = {"WAIT_TIME": 0.01, "MAX_WAIT": 0.2, "MAX_WAIT_WHEN_LISTENING": 0.2}


@pytest.fixture
def pooled(alias, make_executor):
    """A function that starts an executor whose connections, and the test's, come from a pool of this size."""
    rerouting = []

    def start(max_size, **keys):
        options = {**connections.settings[alias]["OPTIONS"], "pool": {"min_size": 1, "max_size": max_size}}
        rerouting.append(rerouted(alias, OPTIONS=options))
        rerouting[-1].__enter__()
        executor = make_executor(QUICK, **{"THREADS": THREADS, "HEARTBEAT_INTERVAL": 0.1, **keys})
        executor.start()
        rerouting.append(executor)
        return executor

    yield start
    if rerouting:
        assert rerouting[1].stop(TIMEOUT)
        rerouting[0].__exit__(None, None, None)


def enough():
    settings = get_settings().replace(threads=THREADS)
    (engine,) = settings.engines.values()
    return ordinary_connections(settings, engine)


def stats(alias):
    return connections[alias].pool.get_stats()


@pytest.mark.gate
def test_jobs_of_all_kinds_are_done_and_the_connections_go_back(alias, pooled, handle):
    together, go = threading.Barrier(THREADS + 1), threading.Event()

    def hold():
        connections[alias].ensure_connection()
        together.wait(TIMEOUT)
        passed(go)

    def fail():
        JobLog.objects.using(alias).count()
        raise ValueError("no")

    def leave_open():
        transaction.set_autocommit(False, using=alias)
        JobLog.objects.using(alias).count()

    handle(hold, name="tests.hold")
    handle(lambda: JobLog.objects.using(alias).count(), name="tests.atomic", atomic=True)
    handle(fail, name="tests.fail", retries="R1/PT1H")
    handle(leave_open, name="tests.leave_open", retries="R1/PT1H")
    executor = pooled(enough())
    for _ in range(THREADS):
        make_job(alias, handler_type="tests.hold")
    together.wait(TIMEOUT)
    connections[alias].close()
    until(lambda: stats(alias)["pool_size"] - stats(alias)["pool_available"] >= THREADS)
    go.set()
    for number in range(20):
        make_job(alias, handler_type="tests.atomic", atomic=True, process_instance_id=f"order-{number % 3}")
    for name in ("tests.fail", "tests.leave_open"):
        make_job(alias, handler_type=name, retries=2)
    until(
        lambda: TimerJob.objects.using(alias).count() == 2 and not Job.objects.using(alias).exists() and executor.idle
    )
    assert JobLog.objects.using(alias).filter(state="successful").count() == THREADS + 20
    # The executor goes on polling, and yet between two polls every connection is in the pool.
    connections[alias].close()
    until(lambda: stats(alias)["pool_available"] == stats(alias)["pool_size"])
    assert stats(alias).get("requests_errors", 0) == 0
    assert stats(alias)["pool_max"] == THREADS + 15


@pytest.mark.gate
def test_in_a_pool_that_is_too_small_jobs_wait_and_are_done(alias, pooled, handle):
    handle(lambda: JobLog.objects.using(alias).count(), name="tests.use")
    executor = pooled(2, THREADS=6)
    for number in range(60):
        make_job(alias, handler_type="tests.use", process_instance_id=f"order-{number % 7}")
        connections[alias].close()  # the test has one of the two
    until(lambda: executor.idle and all_gone(alias))
    assert stats(alias)["pool_size"] <= 2
    assert JobLog.objects.using(alias).filter(state="successful").count() == 60


@pytest.mark.gate
def test_a_pool_whose_connections_were_all_cut_is_filled_anew(alias, pooled, handle):
    handle(lambda: None, name="tests.nothing")
    others = list(clients(alias))  # a thread that a library keeps needs its connection in the tests that follow
    executor = pooled(enough())
    make_job(alias, handler_type="tests.nothing")
    until(lambda: executor.idle and all_gone(alias))
    with connections[alias].cursor() as cursor:
        cursor.execute(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid() AND pid <> ALL(%s)",
            [others],
        )
        assert cursor.fetchone()[0] > 0
    for _ in range(10):
        make_job(alias, handler_type="tests.nothing")
    until(lambda: executor.idle and all_gone(alias))
    assert JobLog.objects.using(alias).filter(state="successful").count() == 11
    assert not JobLog.objects.using(alias).filter(state="failed").exists()


def test_handlers_get_no_connection_that_plans_otherwise(alias, pooled, handle):
    seen = set()

    def look():
        with connections[alias].cursor() as cursor:
            cursor.execute("SHOW enable_seqscan")
            seen.add(cursor.fetchone()[0])

    handle(look, name="tests.look")
    pooled(enough())
    for _ in range(20):
        make_job(alias, handler_type="tests.look")
        until(lambda: all_gone(alias))
    assert seen == {"on"}
