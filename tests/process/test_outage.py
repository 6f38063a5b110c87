"""A database that disappears in the middle: nothing is lost, nothing dies, everything goes on."""

import json
import signal
import threading

import pytest

from jobexec.models import DeadLetterJob, ExecutorNode, Job, JobLog
from tests.support.factories import tables_of
from tests.support.machines import processes
from tests.support.machines.proxy import in_front_of, moved
from tests.support.waiting import until

pytestmark = [pytest.mark.transactional, pytest.mark.slow, pytest.mark.databases("postgresql", "mariadb")]


@pytest.fixture
def behind_proxy(alias, run):
    """A proxy, and a function that starts an executor whose database is behind it."""
    env = processes.environment(alias, JOBEXEC={})
    addresses = json.loads(env["JOBEXEC_TEST_CONNECTIONS"])
    with in_front_of(addresses["default"]) as proxy:

        def start(*arguments, **keys):
            through = json.dumps({"default": moved(addresses["default"], proxy)})
            return run(*arguments, env={"JOBEXEC_TEST_CONNECTIONS": through}, **keys)

        yield proxy, start


def test_nothing_is_lost_while_the_database_is_away(alias, behind_proxy, enqueue, trace):
    _outage(alias, behind_proxy, enqueue, trace, seconds=4)


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.databases("postgresql")
def test_nothing_is_lost_while_the_database_is_away_for_long(alias, behind_proxy, enqueue, trace):
    _outage(alias, behind_proxy, enqueue, trace, seconds=20)


def _outage(alias, behind_proxy, enqueue, trace, seconds):
    proxy, start = behind_proxy
    executor = start(LEASE_TIME=3, GRACE_PERIOD=30).started()
    waiting = enqueue("wait", "over the cut", str(trace.go))
    for number in range(100):
        enqueue("note", str(number), process_instance_id=f"order-{number % 5}")
    until(lambda: len(trace.lines()) > 10)
    proxy.cut()
    trace.go.touch()  # ends without a database: its outcome has to wait
    threading.Event().wait(seconds)
    assert executor.popen.poll() is None, executor.text
    for number in range(100, 120):
        enqueue("note", str(number))
    proxy.repair()
    until(lambda: not Job.objects.using(alias).exists(), 60)
    assert tables_of(alias) == {}, "nothing waits for a retry: nobody was charged for the outage"
    done = {line.split()[0] for line in trace.lines()}
    assert done >= {str(number) for number in range(120)}
    assert trace.lines().count("ended over the cut") == 1
    assert JobLog.objects.using(alias).filter(job_id=waiting.pk, state="successful").count() == 1
    assert JobLog.objects.using(alias).filter(state="successful").count() == 121
    assert not DeadLetterJob.objects.using(alias).exists()
    executor.send(signal.SIGTERM)
    assert executor.ended() == 0, executor.text
    assert not ExecutorNode.objects.using(alias).exists()


@pytest.mark.databases("postgresql")
@pytest.mark.nightly
def test_connections_that_break_again_and_again(alias, behind_proxy, enqueue, trace):
    proxy, start = behind_proxy
    rows = [enqueue("note", str(number), process_instance_id=f"order-{number % 9}") for number in range(200)]
    executor = start("--until-empty", THREADS=4, LEASE_TIME=10).started()
    for cut in range(8):
        until(lambda: len(trace.lines()) >= cut * 20)  # noqa: B023
        proxy.cut()
        proxy.repair()
    assert executor.ended() == 0, executor.text
    assert tables_of(alias) == {}
    assert {line.split()[0] for line in trace.lines()} == {str(number) for number in range(200)}
    assert JobLog.objects.using(alias).filter(state="successful").count() == len(rows)
    assert not JobLog.objects.using(alias).filter(state="failed").exists()


@pytest.mark.databases("postgresql")
def test_a_stop_during_the_outage_ends_in_time(alias, behind_proxy, enqueue, trace):
    proxy, start = behind_proxy
    executor = start(GRACE_PERIOD=1).started()
    enqueue("note_until_settled", "a")
    until(lambda: len(trace.lines()) == 2)
    proxy.cut()
    executor.send(signal.SIGTERM)
    assert executor.ended() == 0, executor.text
    assert "its lease will expire" in executor.text


@pytest.mark.databases("postgresql")
@pytest.mark.nightly
def test_a_stop_with_an_outcome_that_cannot_be_written_is_unfinished(alias, behind_proxy, enqueue, trace):
    proxy, start = behind_proxy
    executor = start(GRACE_PERIOD=1).started()
    enqueue("wait", "a", str(trace.go))
    until(lambda: trace.lines())
    proxy.cut()
    trace.go.touch()
    until(lambda: len(trace.lines()) == 2)
    executor.send(signal.SIGTERM)
    assert executor.ended() == 4, executor.text
    assert "some jobs still run or are not settled" in executor.text
