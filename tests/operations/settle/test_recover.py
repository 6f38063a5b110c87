"""Recovery: what a dead node held; who is charged for a lost run and who never is."""

import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from jobexec import signals
from jobexec.exceptions import WorkerLost
from jobexec.models import DeadLetterJob, ExclusiveLock, ExecutorNode, Job, JobLog, SuspendedJob, TimerJob
from jobexec.operations import (
    complete_jobs,
    fail_job,
    recover_expired_locks,
    recover_node,
    suspend,
    trigger_due_timers,
)
from jobexec.operations.nodes.leases import declare_dead
from jobexec.operations.settle.recover import lock_for, mark_suspect_started, release_owned
from jobexec.operations.values.acquired_job import ALONE_FROM
from tests.support.factories import (
    LEASE_TIME,
    LOCK_TIME,
    a_failure,
    a_run,
    acquire,
    locked_ids,
    make_job,
    make_node,
    make_row,
    table_of,
    work,
)

pytestmark = pytest.mark.every_database

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def die(alias, frozen, node):
    """The node's lease runs out, and somebody sees it."""
    frozen.tick(LEASE_TIME + timedelta(seconds=1))
    assert node in declare_dead(alias)
    return recover_node(alias, node)


def test_the_first_loss_costs_nothing_and_raises_suspicion(alias, frozen):
    node = make_node(alias)
    rows = [make_job(alias), make_job(alias, process_instance_id="p"), make_job(alias, process_instance_id="p")]
    acquire(alias, node.lock_owner)
    assert die(alias, frozen, node) == 3
    for row in Job.objects.using(alias):
        assert (row.lock_owner, row.lock_expiration_time, row.lost_runs, row.revision) == (None, None, 1, 3)
        assert (row.retries, row.attempts, row.exception_message) == (3, 0, "")
    assert not ExclusiveLock.objects.using(alias).exists()
    assert not ExecutorNode.objects.using(alias).exists()
    assert not JobLog.objects.using(alias).exists()
    assert [job.id for job in acquire(alias, "two")] == [row.pk for row in rows]


def test_a_suspect_that_was_only_queued_is_charged_nothing(alias, frozen):
    node = make_node(alias)
    make_row(Job, alias, lost_runs=1)
    acquire(alias, node.lock_owner)
    die(alias, frozen, node)
    row = Job.objects.using(alias).get()
    assert (row.lost_runs, row.retries, row.attempts, row.lock_owner) == (1, 3, 0, None)


def test_a_suspect_that_ran_beside_others_is_charged_nothing_and_runs_alone_next(alias, frozen):
    """A neighbour that nobody suspects yet may have killed the process."""
    node = make_node(alias)
    make_row(Job, alias, lost_runs=1, process_instance_id="p")
    (job,) = acquire(alias, node.lock_owner)
    assert mark_suspect_started(job)
    die(alias, frozen, node)
    row = Job.objects.using(alias).get()
    assert (row.lost_runs, row.retries, row.attempts, row.lock_owner, row.start_time) == (ALONE_FROM, 3, 0, None, None)
    assert not ExclusiveLock.objects.using(alias).exists()


def test_a_suspect_that_had_begun_alone_is_charged(alias, frozen):
    node = make_node(alias, "berlin")
    make_row(Job, alias, lost_runs=2, retry_plan="R3/PT1M", process_instance_id="p")
    (job,) = acquire(alias, node.lock_owner)
    assert mark_suspect_started(job)
    assert Job.objects.using(alias).get().start_time == NOW
    die(alias, frozen, node)
    row = TimerJob.objects.using(alias).get()
    assert (row.lost_runs, row.retries, row.attempts, row.start_time) == (3, 2, 1, None)
    assert row.due_date == frozen.now + timedelta(minutes=1)
    assert "process died" in row.exception_message and "node berlin, 3 lost runs" in row.exception_message
    assert not ExclusiveLock.objects.using(alias).exists()
    entry = JobLog.objects.using(alias).get()
    assert (entry.state, entry.attempt, entry.node, entry.duration) == ("failed", 1, "berlin", 31.0)


@pytest.mark.gate
def test_only_the_killer_of_a_page_becomes_a_dead_letter(alias, frozen):
    """The executor runs a suspect alone and marks its start; whoever runs the killer dies of it."""
    killer = make_job(alias, process_instance_id="k", priority=1)
    neighbours = [make_job(alias, process_instance_id=f"p{number % 2}") for number in range(6)]
    lives = 0
    while table_of(alias, killer) is not DeadLetterJob:
        lives += 1
        assert lives < 10
        node = make_node(alias, f"node {lives}")
        trigger_due_timers(alias, 100)
        for job in acquire(alias, node.lock_owner):
            if job.lost_runs:
                assert mark_suspect_started(job)
            if job.id == killer.pk:
                break  # the process dies here, with the rest of the page in hand
            if lives > 1:
                complete_jobs(alias, [(job, a_run(alias))])
        die(alias, frozen, node)
        frozen.tick(timedelta(hours=1))
    assert lives == ALONE_FROM + killer.retries
    dead = DeadLetterJob.objects.using(alias).get()
    assert dead.pk == killer.pk
    assert dead.exception_message == (
        f"The executor process died while it ran this job (node node {lives}, {lives} lost runs)."
    )
    survivors = Job.objects.using(alias).filter(pk__in=[row.pk for row in neighbours])
    assert {(row.retries, row.attempts) for row in survivors} <= {(3, 0)}
    assert len(acquire(alias, "last")) == len(survivors) == len(neighbours), "all behind the killer, none charged"
    assert {entry.job_id for entry in JobLog.objects.using(alias).filter(state="failed")} == {killer.pk}


def test_a_recorded_outcome_clears_the_suspicion(alias):
    make_row(Job, alias, lost_runs=1)
    (job,) = acquire(alias)
    mark_suspect_started(job)
    assert fail_job(alias, job, a_failure(), a_run(alias)).lost_runs == 0


def test_the_marker_is_only_set_by_the_holder(alias):
    job = work(alias)
    Job.objects.using(alias).update(revision=job.revision + 1)
    assert not mark_suspect_started(job)
    assert Job.objects.using(alias).get().start_time is None


def test_a_charged_job_that_was_suspended_is_suspended(alias, frozen):
    node = make_node(alias)
    make_row(Job, alias, lost_runs=2, tenant_id="t")
    (job,) = acquire(alias, node.lock_owner)
    mark_suspect_started(job)
    suspend(tenant_id="t", using=alias)
    die(alias, frozen, node)
    row = SuspendedJob.objects.using(alias).get()
    assert (row.retries, row.lost_runs) == (2, 3)


def test_an_outcome_from_the_dead_does_not_count(alias, frozen):
    node = make_node(alias)
    make_job(alias)
    make_job(alias)
    first, second = acquire(alias, node.lock_owner)
    die(alias, frozen, node)
    assert complete_jobs(alias, [(first, a_run(alias))]) == set()
    assert fail_job(alias, second, a_failure(), a_run(alias)) is None
    assert Job.objects.using(alias).filter(lock_owner=None, attempts=0).count() == 2


def _a_pid_that_is_gone():
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid


def test_other_nodes_jobs_are_left_alone(alias, frozen):
    dead = make_node(alias, "dead")
    ExecutorNode.objects.using(alias).update(pid=_a_pid_that_is_gone())  # else SQLite refuses the other
    living = make_node(alias, "living", LEASE_TIME * 10)
    mine = work(alias, dead.lock_owner, process_instance_id="p")
    theirs = work(alias, living.lock_owner, process_instance_id="q")
    assert die(alias, frozen, dead) == 1
    assert locked_ids(alias) == {theirs.id}
    assert ExclusiveLock.objects.using(alias).get().process_instance_id == "q"
    assert Job.objects.using(alias).get(pk=mine.id).lost_runs == 1


def test_more_than_a_page_is_recovered(alias, frozen, monkeypatch):
    from jobexec.operations.settle import recover

    monkeypatch.setattr(recover, "_PAGE", 3)
    node = make_node(alias)
    for _ in range(8):
        make_job(alias, process_instance_id="p")
    assert len(acquire(alias, node.lock_owner)) == 8
    assert die(alias, frozen, node) == 8
    assert locked_ids(alias) == set()


def test_expired_locks_without_a_node_are_released(alias, frozen):
    node = make_node(alias)
    ours = work(alias, node.lock_owner)
    row = make_job(alias, process_instance_id="p")
    assert lock_for(alias, row, "execute now:1", LOCK_TIME)
    assert not lock_for(alias, row, "execute now:2", LOCK_TIME), "the row has changed"
    assert not lock_for(alias, Job.objects.using(alias).get(pk=row.pk), "execute now:2", LOCK_TIME)
    ExclusiveLock.objects.using(alias).create(
        process_instance_id="p", lock_owner="execute now:1", acquisition=row.pk, lock_time=NOW
    )
    frozen.tick(LOCK_TIME)
    assert recover_expired_locks(alias) == 0
    frozen.tick(1)
    assert recover_expired_locks(alias) == 1
    assert locked_ids(alias) == {ours.id}, "a node's lock is good as long as its lease"
    assert Job.objects.using(alias).get(pk=row.pk).lost_runs == 1
    assert not ExclusiveLock.objects.using(alias).exists()


def test_a_node_that_stops_in_order_leaves_nothing_and_costs_nothing(alias):
    mine = [work(alias, "one", process_instance_id="p"), work(alias, "one")]
    Job.objects.using(alias).update(start_time=NOW)
    other = work(alias, "two", process_instance_id="q")
    assert release_owned(alias, "one") == 2
    for row in Job.objects.using(alias).filter(pk__in=[job.id for job in mine]):
        assert (row.lock_owner, row.start_time, row.lost_runs, row.retries) == (None, None, 0, 3)
    assert locked_ids(alias) == {other.id}
    assert ExclusiveLock.objects.using(alias).get().lock_owner == "two"


@pytest.mark.transactional
@pytest.mark.parametrize(("retries", "signal"), [(3, "job_failed"), (1, "job_dead_lettered")])
def test_a_charged_loss_is_announced(alias, frozen, retries, signal):
    heard = []

    def receiver(sender, using, job, error, **kwargs):
        heard.append((sender, using, job.pk, job.lost_runs, type(error)))

    node = make_node(alias)
    row = make_row(Job, alias, lost_runs=2, retries=retries)
    mark_suspect_started(acquire(alias, node.lock_owner)[0])
    getattr(signals, signal).connect(receiver)
    try:
        die(alias, frozen, node)
    finally:
        getattr(signals, signal).disconnect(receiver)
    assert heard == [(TimerJob if retries == 3 else DeadLetterJob, alias, row.pk, 3, WorkerLost)]
