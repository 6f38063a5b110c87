"""What operators do beside nodes, and beside each other: of two one wins, and nothing is done by halves."""

from datetime import timedelta

import pytest

from jobexec import clock, encryption
from jobexec.models import DeadLetterJob, ExecutorNode, Incident, Job
from jobexec.operations import complete_jobs, delete_jobs, fail_job, override_priority, reencrypt, requeue, unlock
from jobexec.operations.external import fail_external_job
from jobexec.operations.nodes.deployments import write_job_definitions
from tests.support.factories import a_failure, a_run, acquire, make_job, make_node, reload, table_of, work
from tests.support.outside import held_by_worker
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
    assert finish(other).skipped == {job.id: "it has changed in the meantime"}
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


@pytest.fixture
def keys(settings, alias):
    """A function that gives jobexec these keys, each of 32 equal letters."""

    def change(*names):
        keys = {name: (lambda name=name: name[:1].encode() * 32) for name in names}
        settings.JOBEXEC = {"ENGINES": {alias: {}}, "ENCRYPTION_KEYS": keys}

    return change


@servers
def test_what_a_worker_adds_meanwhile_is_encrypted_again_too(alias, keys):
    keys("old")
    job = held_by_worker(alias, variables={"card": "4711"}, encrypted=True)
    keys("new", "old")
    with held(alias) as inside:
        keys("old", "new")
        sent = {"message": "no", "variables": {"tried": 1}}
        inside(lambda: fail_external_job(alias, job.job_key, retries=2, **sent))
        keys("new", "old")
        other = start(alias, lambda: reencrypt(job.pk, using=alias))
        wait_until_waiting(alias, other)
    assert finish(other).changed == [job.pk]
    row = reload(alias, job)
    assert encryption.key_of(row.handler_configuration) == "new"
    keys("new")
    assert encryption.unseal(row.handler_configuration, "payment", job.pk)["variables"] == {"card": "4711", "tried": 1}


@pytest.mark.parametrize("turn", range(3))
def test_encrypting_again_costs_no_outcome(alias, keys, turn):
    keys("old")
    columns = {"handler_type": "tests.any", "handler_configuration": {"args": [1], "kwargs": {}}}
    job = work(alias, **columns)
    reencrypt(job.id, True, using=alias)
    keys("new", "old")
    done, result = together(
        alias, lambda: complete_jobs(alias, [(job, a_run(alias))]), lambda: reencrypt(job.id, using=alias)
    )
    assert done == {job.id}
    assert result.changed == [job.id] or result.skipped
    assert not Job.objects.using(alias).exists()
