"""Processes that die with jobs in hand: every job is done, and no innocent pays for it."""

import os
import signal

import pytest

from jobexec.models import DeadLetterJob, ExclusiveLock, ExecutorNode, Job, JobLog
from tests.support.executor import all_gone
from tests.support.factories import tables_of
from tests.support.machines.processes import SHORT_LEASE
from tests.support.waiting import until

pytestmark = [pytest.mark.transactional, pytest.mark.slow]


@pytest.mark.databases("postgresql", "mariadb")
def test_kill_9_in_the_middle_of_many_jobs(alias, run, enqueue, trace):
    enqueue("wait", "blocks one thread", str(trace.go))
    rows = [enqueue("note", f"n{number}", process_instance_id=f"order-{number % 7}") for number in range(150)]
    first = run("--node", "one", **SHORT_LEASE).started()
    until(lambda: len(trace.lines()) > 20)
    first.send(signal.SIGKILL)
    first.ended()
    trace.go.touch()
    second = run("--node", "two", "--until-empty", **SHORT_LEASE)
    assert second.ended() == 0, second.text
    assert tables_of(alias) == {}
    assert set(trace.texts()) >= {f"n{number}" for number in range(150)}
    assert JobLog.objects.using(alias).filter(state="successful").count() == len(rows) + 1
    assert not JobLog.objects.using(alias).filter(state="failed").exists(), "no innocent was charged"
    assert not (ExecutorNode.objects.using(alias).exists() or ExclusiveLock.objects.using(alias).exists())


@pytest.mark.databases("postgresql")
@pytest.mark.nightly
def test_what_ran_when_its_process_was_killed_runs_side_by_side_again(alias, run, enqueue, trace):
    for number in range(6):
        enqueue("wait", f"n{number}", str(trace.go))
    first = run("--node", "one", "--threads", "6", **SHORT_LEASE).started()
    until(lambda: len(trace.lines()) == 6)
    first.send(signal.SIGKILL)
    first.ended()
    second = run("--node", "two", "--threads", "6", "--until-empty", **SHORT_LEASE)
    until(lambda: len(trace.lines()) == 12)  # all of them at once: none of these has ended
    assert not [line for line in trace.lines() if line.startswith("ended")]
    trace.go.touch()
    assert second.ended() == 0, second.text
    assert tables_of(alias) == {}


@pytest.mark.databases("postgresql", "mariadb")
def test_the_permits_of_a_killed_node_stay_taken_until_its_jobs_are_recovered(alias, run, enqueue, trace, settings):
    shared = {"RESOURCES": {"pay.example": {"limit": 2}}}
    settings.JOBEXEC = settings.JOBEXEC | shared
    for number in range(6):
        enqueue("wait", f"n{number}", str(trace.go), resource="pay.example")
    first = run("--node", "one", "--threads", "4", **SHORT_LEASE, **shared).started()
    until(lambda: len(trace.lines()) == 2)
    lost = trace.lines()
    second = run("--node", "two", "--threads", "4", **SHORT_LEASE, **shared).started()
    first.send(signal.SIGKILL)
    first.ended()
    assert Job.objects.using(alias).exclude(lock_owner=None).count() == 2
    until(lambda: len(trace.lines()) == 4)
    assert sorted(trace.lines()[2:]) == sorted(lost), "no other job got a permit"
    trace.go.touch()
    until(lambda: all_gone(alias))
    second.send(signal.SIGTERM)
    assert second.ended() == 0, second.text
    at_once, most = 0, 0
    for line in trace.lines()[2:]:
        at_once += 1 if line.startswith("begun") else -1
        most = max(most, at_once)
    assert most == 2
    assert {line for line in trace.lines() if line.startswith("ended")} == {f"ended n{number}" for number in range(6)}


@pytest.mark.databases("postgresql", "mariadb")
@pytest.mark.parametrize("instance", [pytest.param("", marks=pytest.mark.nightly), "order-1"])
def test_kill_9_between_the_commit_of_a_follow_up_and_the_pool(alias, run, enqueue, trace, instance):
    first = run("--node", "one", **SHORT_LEASE).started()
    enqueue("die_before_the_pool", instance, process_instance_id=instance)
    assert first.ended() == -signal.SIGKILL
    held = Job.objects.using(alias).filter(handler_type="tests.process.jobs.note").exclude(lock_owner=None)
    last = held.order_by("id").last()
    assert last is not None
    assert not [text for text in trace.texts() if text == last.handler_configuration["args"][1]]
    second = run("--node", "two", "--until-empty", **SHORT_LEASE)
    assert second.ended() == 0, second.text
    assert tables_of(alias) == {}
    texts = trace.texts()
    assert texts.count(last.handler_configuration["args"][1]) == 1
    log = JobLog.objects.using(alias)
    assert not log.filter(state="failed").exists(), "it never began, and is not charged"
    assert log.get(job_id=last.pk, state="successful").attempt == 1
    assert not (ExecutorNode.objects.using(alias).exists() or ExclusiveLock.objects.using(alias).exists())


@pytest.mark.databases("postgresql", "mariadb")
def test_kill_9_with_async_jobs_in_hand(alias, run, enqueue, trace):
    for number in range(60):
        enqueue("await_go", f"n{number}", str(trace.go), process_instance_id=f"order-{number % 40}")
    first = run("--node", "one", "--threads", "2", **SHORT_LEASE).started()
    until(lambda: len(trace.lines()) == 40)
    assert Job.objects.using(alias).exclude(lock_owner=None).count() >= 40
    first.send(signal.SIGKILL)
    first.ended()
    trace.go.touch()
    second = run("--node", "two", "--threads", "2", "--until-empty", **SHORT_LEASE)
    assert second.ended() == 0, second.text
    assert tables_of(alias) == {}
    assert {line for line in trace.lines() if line.startswith("ended")} == {f"ended n{number}" for number in range(60)}
    assert len(trace.lines()) == 40 + 2 * 60
    assert JobLog.objects.using(alias).filter(state="successful").count() == 60
    assert not JobLog.objects.using(alias).filter(state="failed").exists(), "no innocent was charged"
    assert not (ExecutorNode.objects.using(alias).exists() or ExclusiveLock.objects.using(alias).exists())


@pytest.mark.databases("postgresql")
@pytest.mark.nightly
def test_jobs_that_kill_their_process_end_as_dead_letters_and_their_neighbours_are_done(alias, run, enqueue, trace):
    killers = {enqueue("die", how, retries=1, priority=-1).pk for how in ("exit", "kill")}
    for number in range(4):  # each may be lost with its killer, and then runs in a process of its own
        enqueue("note", f"n{number}")
    for turn in range(8):
        executor = run("--node", f"node-{turn}", "--until-empty", "--threads", "2", **SHORT_LEASE)
        code = executor.ended()
        if code == 0:
            break
        assert code in (9, -9), executor.text
    assert code == 0, executor.text
    assert tables_of(alias) == {pk: [DeadLetterJob] for pk in killers}
    for dead in DeadLetterJob.objects.using(alias).all():
        assert "The executor process died while it ran this job" in dead.exception_message
        assert dead.lost_runs >= 2
    assert set(trace.texts()) >= {f"n{number}" for number in range(4)}
    failed = JobLog.objects.using(alias).filter(state="failed").exclude(job_id__in=killers)
    assert list(failed.values_list("exception_message", "exception_stack")) == [], "no innocent was charged"


@pytest.mark.slow
@pytest.mark.databases("postgresql")
def test_the_neighbours_of_a_killer_on_its_page_never_pay(alias, run, enqueue, trace):
    killer = enqueue("die", "kill", retries=1, priority=10).pk
    neighbours = {enqueue("note", f"n{number}", process_instance_id=f"order-{number % 3}").pk for number in range(100)}
    neighbours |= {enqueue("note", f"n{number}").pk for number in range(100, 200)}
    for turn in range(6):
        executor = run("--node", f"node-{turn}", "--until-empty", "--threads", "2", **SHORT_LEASE)
        code = executor.ended()
        if code == 0:
            break
        if turn == 0:
            in_hand = Job.objects.using(alias).exclude(lock_owner=None).count()
            # A node takes some twenty jobs, as long as it does not know how long jobs take.
            assert in_hand > 10, "the page was in hand when its killer struck"
    assert code == 0, executor.text
    assert turn == 2, "the first loss makes suspects, the second one lonely; then a process of its own proves who it is"
    assert tables_of(alias) == {killer: [DeadLetterJob]}
    dead = DeadLetterJob.objects.using(alias).get()
    assert "The executor process died while it ran this job" in dead.exception_message
    log = JobLog.objects.using(alias)
    assert set(log.filter(state="successful").values_list("job_id", flat=True)) == neighbours
    assert list(log.filter(state="successful").values_list("attempt", "retries").distinct()) == [(1, 3)]
    assert set(log.filter(state="failed").values_list("job_id", flat=True)) == {killer}


@pytest.mark.databases("postgresql", "mariadb")
def test_what_was_lost_twice_runs_in_a_process_of_its_own_and_nobody_waits(alias, run, enqueue, trace):
    enqueue("wait", "lonely", str(trace.go), lost_runs=2, process_instance_id="order-1")
    enqueue("note", "sibling", process_instance_id="order-1")
    enqueue("wait", "beside", str(trace.go))
    executor = run("--threads", "2", **SHORT_LEASE).started()
    until(lambda: {"begun lonely", "begun beside"} <= set(trace.lines()))
    for number in range(5):
        enqueue("note", f"n{number}")
    until(lambda: len(trace.lines()) == 7)
    assert {line.rsplit(" ", 1)[1] for line in trace.lines() if line.startswith("n")} == {str(executor.pid)}
    lonely = Job.objects.using(alias).get(lost_runs=2)
    nodes = dict(ExecutorNode.objects.using(alias).values_list("lock_owner", "name"))
    assert nodes[lonely.lock_owner].endswith("-solitary")
    trace.go.touch()
    until(lambda: all_gone(alias))
    assert trace.lines()[-1].startswith("sibling") and "ended lonely" in trace.lines()
    until(lambda: ExecutorNode.objects.using(alias).count() == 1)
    executor.send(signal.SIGTERM)
    assert executor.ended() == 0, executor.text
    assert not (ExecutorNode.objects.using(alias).exists() or ExclusiveLock.objects.using(alias).exists())


@pytest.mark.databases("postgresql")
def test_a_drain_waits_for_what_runs_in_a_process_of_its_own(alias, run, enqueue, trace):
    enqueue("wait", "lonely", str(trace.go), lost_runs=2)
    executor = run("--threads", "2", **SHORT_LEASE).started()
    until(lambda: trace.lines() == ["begun lonely"])
    executor.send(signal.SIGTERM)
    executor.said("Draining")
    enqueue("note", "later")
    trace.go.touch()
    assert executor.ended() == 0, executor.text
    assert trace.lines() == ["begun lonely", "ended lonely"], executor.text
    assert not ExecutorNode.objects.using(alias).exists()


@pytest.mark.databases("postgresql", "sqlite")
def test_a_child_of_a_handler_that_comes_back_does_nobodys_work(alias, run, enqueue, trace):
    """With the connections of its parent it would take the jobs that wait, and settle those that it knows."""
    for number in range(6):
        enqueue("fork", f"f{number}")
        enqueue("note", f"n{number}")
    executor = run("--until-empty", "--threads", "2")
    assert executor.ended() == 0, executor.text
    assert sorted(trace.texts()) == sorted(f"{kind}{number}" for kind in "fn" for number in range(6))
    assert {line for line in trace.lines() if line.startswith("f")} == {f"f{number} 70" for number in range(6)}
    assert "'tests.process.jobs.fork'" in executor.text
    assert "returned from the handler; it exits now" in executor.text
    assert tables_of(alias) == {}


@pytest.mark.databases("sqlite")
def test_on_sqlite_the_next_executor_need_not_wait_for_the_lease(alias, run, enqueue, trace):
    enqueue("wait", "a", str(trace.go))
    first = run(LEASE_TIME=60).started()
    until(lambda: trace.lines() == ["begun a"])
    refused = run(LEASE_TIME=60)
    assert refused.ended() == 1
    assert "one executor at a time" in refused.text
    first.send(signal.SIGKILL)
    first.ended()
    second = run(LEASE_TIME=60).started()
    second.send(signal.SIGTERM)
    assert second.ended() == 0, second.text


@pytest.mark.databases("postgresql")
def test_a_paused_process_finds_out_that_its_jobs_were_taken_over(alias, run, enqueue, trace):
    enqueue("wait", "a", str(trace.go))
    paused = run("--node", "paused", LEASE_TIME=5).started()
    until(lambda: trace.lines() == ["begun a"])
    os.kill(paused.pid, signal.SIGSTOP)
    try:
        other = run("--node", "other", **SHORT_LEASE).started()
        until(lambda: trace.lines() == ["begun a", "begun a"])
    finally:
        os.kill(paused.pid, signal.SIGCONT)
    paused.said("was declared dead")
    trace.go.touch()
    until(lambda: all_gone(alias))
    for process in (paused, other):
        process.send(signal.SIGTERM)
        assert process.ended() == 0, process.text
    assert JobLog.objects.using(alias).filter(state="successful").count() == 1
    assert "this outcome is discarded" in paused.text
