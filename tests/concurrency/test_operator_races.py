"""What operators do beside nodes, and beside each other: of two one wins, and nothing is done by halves."""

from datetime import timedelta

import pytest

from jobexec import clock
from jobexec.models import DeadLetterJob, ExecutorNode, Incident, Job
from jobexec.operations import complete_jobs, delete_jobs, fail_job, override_priority, requeue, unlock
from jobexec.operations.nodes.deployments import write_job_definitions
from tests.support.factories import a_failure, a_run, acquire, make_job, make_node, reload, table_of, work
from tests.support.threads import finish, held, start, together, wait_until_waiting

pytestmark = pytest.mark.transactional
servers = pytest.mark.databases("postgresql", "mariadb")


@servers
def test_a_heartbeat_that_comes_first_keeps_the_lock(alias):
    node = make_node(alias)
    job = work(alias, node.lock_owner, process_instance_id="p")
    row = ExecutorNode.objects.using(alias).filter(pk=node.pk)
    row.update(lease_expiration_time=clock.now(alias) - timedelta(minutes=1))
    with held(alias) as inside:
        inside(lambda: row.update(lease_expiration_time=clock.now(alias) + timedelta(minutes=1)))
        other = start(alias, lambda: unlock(job.id, using=alias))
        wait_until_waiting(alias, other)
    assert finish(other).skipped == {job.id: "node node has just come back"}
    assert reload(alias, job).lost_runs == 0
    assert complete_jobs(alias, [(job, a_run(alias))]) == {job.id}, "its lock was good all the time"


@servers
def test_an_outcome_that_comes_first_leaves_nothing_to_unlock(alias):
    node = make_node(alias)
    job = work(alias, node.lock_owner)
    past = clock.now(alias) - timedelta(minutes=1)
    ExecutorNode.objects.using(alias).filter(pk=node.pk).update(lease_expiration_time=past)
    with held(alias) as inside:
        inside(lambda: complete_jobs(alias, [(job, a_run(alias))]))
        other = start(alias, lambda: unlock(job.id, using=alias))
        wait_until_waiting(alias, other)
    assert finish(other).skipped == {job.id: "it changed meanwhile"}
    assert not Job.objects.using(alias).exists()


@servers
def test_a_cascade_waits_for_a_row_that_is_just_being_acquired_and_for_no_other_meanwhile(alias):
    write_job_definitions([{"id": "a", "handler_type": "a", "category": "default"}], using=alias)
    first, second = make_job(alias, handler_type="a"), make_job(alias, handler_type="a")
    with held(alias) as inside:
        (job,) = inside(lambda: acquire(alias, "one", 1, strategy="skip_locked"))
        assert job.id == first.pk
        other = start(alias, lambda: override_priority("a", 7, cascade=True, using=alias))
        wait_until_waiting(alias, other)
        assert reload(alias, second).priority == 7, "committed: whoever waits holds no other job"
    assert finish(other) == 2
    assert reload(alias, first).priority == 7
    assert complete_jobs(alias, [(job, a_run(alias))]) == {job.id}, "its outcome counts"


@pytest.mark.parametrize("turn", range(5))
def test_of_requeueing_and_deleting_one_wins_and_the_incident_says_which(alias, turn):
    job = work(alias)
    fail_job(alias, job, a_failure(kind="fatal"), a_run(alias))
    requeued, deleted = together(
        alias, lambda: requeue([job.id], using=alias), lambda: delete_jobs([job.id], using=alias)
    )
    assert requeued or deleted
    assert not DeadLetterJob.objects.using(alias).exists()
    # Deleting may also come after requeueing; then it was no dead letter any more.
    assert Incident.objects.using(alias).get().state == ("resolved" if requeued else "deleted")
    assert table_of(alias, job) is (None if deleted else Job)


def test_of_many_who_requeue_one_does(alias):
    job = work(alias)
    fail_job(alias, job, a_failure(kind="fatal"), a_run(alias))
    results = together(alias, *[lambda: requeue(job.id, using=alias)] * 4)
    assert sum(map(bool, results)) == 1
    assert Incident.objects.using(alias).get().state == "resolved"
