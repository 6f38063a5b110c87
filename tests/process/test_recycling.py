"""Processes that are started afresh at a limit, with jobs in hand: each job is done once, and none is charged."""

import os
import signal
from datetime import timedelta

import pytest

from jobexec.models import DeadLetterJob, ExclusiveLock, ExecutorNode, Job, JobLog
from tests.support.executor import all_gone
from tests.support.factories import tables_of
from tests.support.machines import health
from tests.support.machines.processes import SHORT_LEASE, alive
from tests.support.waiting import until

pytestmark = [pytest.mark.transactional, pytest.mark.slow]


def pids(alias):
    return {node.name: node.pid for node in ExecutorNode.objects.using(alias).exclude(state="dead")}


def processes(trace, text):
    """The processes that left lines which begin so."""
    return {line.split()[-1] for line in trace.lines() if line.startswith(text)}


def assert_done_once(alias, trace, count):
    assert all_gone(alias)
    log = JobLog.objects.using(alias)
    assert log.filter(state="successful").values("job_id").distinct().count() == log.count() == count
    assert not ExclusiveLock.objects.using(alias).exists()


def recycle(enqueue, trace, supervisor, limit):
    """A job is in flight when the limit is reached, and more come while it drains; all are done by two processes."""
    supervisor.said(f"({limit}). Draining. Running jobs: 1.")
    for number in range(20):
        enqueue("note", f"later {number}", process_instance_id=f"order-{number % 5}")
    trace.go.touch()
    assert supervisor.ended() == 0, supervisor.text
    assert "a new one replaces it" in supervisor.text
    assert "restarting in" not in supervisor.text, "no failure, no pause"
    assert trace.lines().count("begun a") == trace.lines().count("ended a") == 1


@pytest.mark.databases("sqlite", "postgresql")
def test_max_jobs_with_one_process(alias, run, enqueue, trace):
    enqueue("wait", "a", str(trace.go))
    for number in range(5):
        enqueue("note", f"early {number}", process_instance_id=f"order-{number}")
    recycle(enqueue, trace, run("--max-jobs", "5", "--until-empty", "-v", "2"), "--max-jobs")
    assert_done_once(alias, trace, 26)
    early, later = processes(trace, "early"), processes(trace, "later")
    assert (len(early), len(early & later)) == (1, 0)
    assert not ExecutorNode.objects.using(alias).exists()


@pytest.mark.databases("postgresql")
@pytest.mark.nightly
def test_a_process_ends_at_its_limit(alias, run, enqueue, trace):
    for number in range(3):
        enqueue("note", f"early {number}")
    process = run("--max-jobs", "3", "--no-restart", "--threads", "1", "-v", "2")
    assert process.ended() == 0, process.text
    assert "Drained." in process.text and "a new one replaces it" not in process.text
    assert all_gone(alias) and not ExecutorNode.objects.using(alias).exists()
    refused = run("--no-restart", "--processes", "2")
    assert refused.ended() == 2 and "--no-restart: expected one process" in refused.text


@pytest.mark.databases("postgresql")
def test_max_rss(alias, run, enqueue, trace):
    enqueue("swell", "early", 200 * 1024**2)
    enqueue("wait", "a", str(trace.go))
    recycle(enqueue, trace, run("--max-rss", "200M", "--until-empty", "-v", "2"), "--max-rss")
    assert_done_once(alias, trace, 22)
    assert processes(trace, "early").isdisjoint(processes(trace, "later"))


@pytest.mark.databases("postgresql")
@pytest.mark.nightly
def test_two_processes_are_recycled_one_after_the_other(alias, run, enqueue, trace):
    for number in range(3):  # one process holds at most two of them
        enqueue("wait", str(number), str(trace.go))
    options = ["--processes", "2", "--node", "pair", "--threads", "1", "--queue-size", "1", "--health-port", "0"]
    supervisor = run(*options, "--max-lifetime", "2")
    until(lambda: len(trace.lines()) == 2 or supervisor.popen.poll() is not None)
    before = pids(alias)
    until(lambda: all(each.get("wish") for each in health.ask(supervisor, "ready").body["processes"]))
    draining = until(lambda: ExecutorNode.objects.using(alias).filter(state="draining").first())
    supervisor.said("Draining. Running jobs: 1.")
    (other,) = set(before) - {draining.name}
    assert alive(before[other])
    trace.go.touch()
    until(lambda: set(pids(alias)) == set(before) and not set(pids(alias).values()) & set(before.values()))
    until(lambda: all_gone(alias))
    supervisor.send(signal.SIGTERM)
    assert supervisor.ended() == 0, supervisor.text
    said = [line.split(",")[0] for line in supervisor.out if line.startswith(("Restarting", "Drained."))]
    assert said[:4] == ["Restarting", "Drained."] * 2, "the other one waited for its turn"
    texts = [line.split()[0] for line in trace.lines()]
    assert (texts.count("begun"), texts.count("ended")) == (3, 3)
    assert not JobLog.objects.using(alias).exclude(state="successful").exists()
    assert "restarting in" not in supervisor.text


@pytest.mark.databases("postgresql")
@pytest.mark.nightly
def test_a_signal_during_a_recycle_is_the_first_one(alias, run, enqueue, trace):
    enqueue("note", "counts")
    enqueue("wait", "a", str(trace.go))
    supervisor = run("--max-jobs", "1", "--health-port", "0")
    supervisor.said("Draining. Running jobs: 1.")
    (child,) = pids(alias).values()
    enqueue("note", "not begun")
    supervisor.send(signal.SIGTERM)
    until(lambda: health.ask(supervisor, "ready").body["reasons"] == ["draining"])
    os.kill(child, signal.SIGTERM)  # as systemd does with all processes of a service, unless told otherwise
    assert (alive(child), supervisor.popen.poll()) == (True, None)
    trace.go.touch()
    assert supervisor.ended() == 0, supervisor.text
    assert trace.lines().count("begun a") == trace.lines().count("ended a") == 1
    left = Job.objects.using(alias).get()
    assert (left.lock_owner, left.lost_runs) == (None, 0)
    assert "a new one replaces it" not in supervisor.text


@pytest.mark.databases("postgresql")
@pytest.mark.nightly
def test_the_second_signal_during_a_recycle_leaves(alias, run, enqueue, trace):
    enqueue("note", "counts")
    enqueue("wait", "a", str(trace.go))
    supervisor = run("--max-jobs", "1")
    supervisor.said("Draining. Running jobs: 1.")
    supervisor.send(signal.SIGTERM)
    supervisor.send(signal.SIGINT)
    assert supervisor.ended() == 3, supervisor.text
    assert Job.objects.using(alias).get().lock_owner is not None


@pytest.mark.databases("sqlite")
@pytest.mark.nightly
def test_a_grace_period_that_is_over_does_not_keep_the_fresh_one_away(alias, run, enqueue, trace):
    enqueue("note", "counts")
    enqueue("wait", "a", str(trace.go))
    supervisor = run("--max-jobs", "1", GRACE_PERIOD=0.3, LEASE_TIME=2)
    until(lambda: trace.lines().count("begun a") == 2)  # in the fresh one, once the lease of the old one is over
    trace.go.touch()
    until(lambda: all_gone(alias))
    supervisor.send(signal.SIGTERM)
    assert supervisor.ended() == 0, supervisor.text
    assert "restarting in" not in supervisor.text
    assert not JobLog.objects.using(alias).filter(state="failed").exists()


@pytest.mark.databases("postgresql")
@pytest.mark.nightly
def test_too_many_stuck_threads(alias, run, enqueue, trace):
    """The process drains what can be drained and ends; an exclusive job's process instance stays locked until then."""
    columns = {"timeout": timedelta(seconds=0.3), "retries": 1, "process_instance_id": "order-1"}
    enqueue("wait", "hangs", str(trace.go), **columns)
    process = run("--threads", "1", MAX_STUCK_THREADS=0, **SHORT_LEASE)
    assert process.ended() == 5, process.text
    assert "1 threads are stuck in jobs that are past their timeout" in process.text
    assert tables_of(alias) == {DeadLetterJob.objects.using(alias).get().pk: [DeadLetterJob]}
    assert ExclusiveLock.objects.using(alias).get().process_instance_id == "order-1"
    sibling = enqueue("note", "sibling", process_instance_id="order-1")
    fresh = run("--until-empty", **SHORT_LEASE)
    assert fresh.ended() == 0, fresh.text
    assert JobLog.objects.using(alias).get(job_id=sibling.pk).state == "successful"
    assert not ExclusiveLock.objects.using(alias).exists()


@pytest.mark.databases("postgresql")
@pytest.mark.nightly
def test_too_many_stuck_threads_in_one_of_two_processes(alias, run, enqueue, trace):
    enqueue("wait", "hangs", str(trace.go), timeout=timedelta(seconds=0.3), retries=1)
    supervisor = run("--processes", "2", "--threads", "1", "-v", "2", MAX_STUCK_THREADS=0)
    supervisor.said("a new one replaces it")
    trace.go.touch()
    enqueue("note", "later")
    until(lambda: processes(trace, "later"))
    supervisor.send(signal.SIGTERM)
    assert supervisor.ended() == 0, supervisor.text
    assert "restarting in" not in supervisor.text, "no failure, no pause"
