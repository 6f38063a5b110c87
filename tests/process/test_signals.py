"""Signals, exit codes, and what becomes of the jobs in hand."""

import signal

import pytest

from jobexec.models import ExclusiveLock, ExecutorNode, Job
from tests.support.factories import tables_of
from tests.support.machines.processes import SHORT_LEASE
from tests.support.waiting import until

pytestmark = [pytest.mark.transactional, pytest.mark.smoke]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.databases("sqlite", "postgresql")
def test_the_first_signal_drains_and_exits_with_0(alias, run, enqueue, trace, number):
    for text in ("a", "b", "c"):
        enqueue("wait", text, str(trace.go))
    executor = run().started()
    until(lambda: len(trace.lines()) == 2)
    executor.send(number)
    until(lambda: Job.objects.using(alias).exclude(lock_owner=None).count() == 2)
    assert executor.popen.poll() is None
    trace.go.touch()
    assert executor.ended() == 0, executor.text
    assert sorted(trace.lines()) == ["begun a", "begun b", "ended a", "ended b"]
    (left,) = Job.objects.using(alias).all()
    assert (left.lock_owner, left.lost_runs, left.retries) == (None, 0, 3)
    assert not (ExecutorNode.objects.using(alias).exists() or ExclusiveLock.objects.using(alias).exists())
    assert executor.err == []


@pytest.mark.slow
@pytest.mark.databases("postgresql", "mariadb")
def test_the_second_signal_leaves_at_once_and_recovery_gives_the_jobs_back(alias, run, enqueue, trace):
    enqueue("wait", "a", str(trace.go), process_instance_id="order-1")
    executor = run("--node", "one", **SHORT_LEASE).started()
    until(lambda: trace.lines() == ["begun a"])
    executor.send(signal.SIGTERM)
    until(lambda: ExecutorNode.objects.using(alias).filter(state="draining").exists())
    executor.send(signal.SIGTERM)
    assert executor.ended() == 3, executor.text
    assert executor.err == ["Leaving at once; recovery will release the jobs in hand."]
    assert Job.objects.using(alias).get().lock_owner is not None
    trace.go.touch()
    other = run("--node", "two", "--until-empty", **SHORT_LEASE)
    assert other.ended() == 0, other.text
    assert trace.lines() == ["begun a", "begun a", "ended a"]
    assert tables_of(alias) == {}
    assert any("died with 1 jobs" in line for line in other.err)


@pytest.mark.gate
@pytest.mark.databases("sqlite", "postgresql")
def test_async_jobs_that_outlast_the_grace_period_are_given_back(alias, run, enqueue, trace):
    for text in ("a", "b"):
        enqueue("await_go", text, str(trace.go))
    executor = run(GRACE_PERIOD=0.5).started()
    until(lambda: len(trace.lines()) == 2)
    executor.send(signal.SIGTERM)
    assert executor.ended() == 0, executor.text
    assert any("2 async jobs did not finish in time" in line for line in executor.err)
    left = Job.objects.using(alias).values_list("lock_owner", "lost_runs", "retries")
    assert list(left) == [(None, 0, 3)] * 2
    assert not ExecutorNode.objects.using(alias).exists()


@pytest.mark.gate
@pytest.mark.databases("postgresql")
def test_a_grace_period_that_is_over_exits_with_4(alias, run, enqueue, trace):
    enqueue("wait", "a", str(trace.go))
    executor = run(GRACE_PERIOD=0.5).started()
    until(lambda: trace.lines() == ["begun a"])
    executor.send(signal.SIGTERM)
    assert executor.ended() == 4, executor.text
    assert any("stopped while it still held jobs" in line for line in executor.err)
    assert Job.objects.using(alias).get().lock_owner is not None, "its lock ends with the lease"


@pytest.mark.gate
@pytest.mark.databases("sqlite")
def test_a_signal_while_it_starts_ends_it_too(alias, run):
    executor = run()
    executor.send(signal.SIGTERM)  # before Python has installed anything: the default kills
    assert executor.ended() in (0, -signal.SIGTERM)
    executor = run()
    until(lambda: ExecutorNode.objects.using(alias).exists() or executor.popen.poll() is not None)
    executor.send(signal.SIGTERM)
    assert executor.ended() == 0, executor.text
    assert not ExecutorNode.objects.using(alias).exists()


@pytest.mark.gate
@pytest.mark.databases("sqlite")
def test_many_signals_in_a_row_end_it_in_any_case(alias, run, enqueue, trace):
    enqueue("wait", "a", str(trace.go))
    executor = run().started()
    until(lambda: trace.lines() == ["begun a"])

    def ended():
        executor.send(signal.SIGINT)
        return executor.popen.poll() is not None

    until(ended, turn=0.001)
    assert executor.ended() == 3, executor.text
