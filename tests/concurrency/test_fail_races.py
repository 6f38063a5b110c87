"""Groups of failures against recovery, against each other, and against people: of two, one settles a row."""

import random
from collections import Counter
from datetime import timedelta

import pytest

from jobexec import clock
from jobexec.models import DeadLetterJob, ExclusiveLock, ExecutorNode, Job, JobLog, SuspendedJob, TimerJob
from jobexec.operations import fail_jobs, recover_node, release_jobs, set_priority, suspend
from jobexec.operations.nodes.leases import declare_dead
from tests.support import forms
from tests.support.factories import a_failure, a_run, acquire, make_job, make_node, tables_of
from tests.support.threads import finish, held, start, together, undo, wait_until_waiting

pytestmark = pytest.mark.transactional
servers = pytest.mark.databases("postgresql", "mariadb")


@pytest.fixture(autouse=True, params=forms.MOVES)
def form(request, monkeypatch, alias):
    """Both ways of moving, where there are two."""
    forms.move(request.param, alias, monkeypatch)


def failed(alias, jobs, **values):
    return [(job, a_failure(**values), a_run(alias)) for job in jobs]


def works(alias, count, owner="one", **columns):
    for _ in range(count):
        make_job(alias, **columns)
    return acquire(alias, owner)


def test_of_two_settlements_of_the_same_group_each_job_counts_once(alias):
    """In opposite orders, and so that each has some that the other has not."""
    jobs = works(alias, 30)
    one, two = together(
        alias,
        lambda: fail_jobs(alias, failed(alias, jobs[:20])),
        lambda: fail_jobs(alias, failed(alias, jobs[10:][::-1])),
    )
    counted = Counter(row.pk for row in [*one, *two] if row is not None)
    assert counted == {job.id: 1 for job in jobs}
    assert tables_of(alias) == {job.id: [TimerJob] for job in jobs}
    assert Counter(JobLog.objects.using(alias).values_list("job_id", flat=True)) == counted


@servers
@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_a_group_waits_for_recovery_and_what_it_took_does_not_count(alias, end):
    node = make_node(alias)
    jobs = works(alias, 3, node.lock_owner, process_instance_id="p")
    ExecutorNode.objects.using(alias).update(lease_expiration_time=clock.now(alias) - timedelta(seconds=1))
    declare_dead(alias)
    with held(alias) as inside:
        assert inside(lambda: recover_node(alias, node)) == 3
        late = start(alias, lambda: fail_jobs(alias, failed(alias, jobs)))
        wait_until_waiting(alias, late)
        if end == "rollback":
            inside(undo)
    moved = finish(late)
    if end == "commit":
        assert moved == [None] * 3
        assert tables_of(alias) == {job.id: [Job] for job in jobs}
        assert not JobLog.objects.using(alias).exists()
    else:
        assert {row.pk for row in moved} == {job.id for job in jobs}
        assert not ExclusiveLock.objects.using(alias).exists()


@servers
def test_recovery_passes_over_a_group_that_is_just_being_settled(alias):
    node = make_node(alias)
    jobs = works(alias, 3, node.lock_owner)
    ExecutorNode.objects.using(alias).update(lease_expiration_time=clock.now(alias) - timedelta(seconds=1))
    declare_dead(alias)
    with held(alias) as inside:
        assert all(inside(lambda: fail_jobs(alias, failed(alias, jobs[:2]))))
        assert finish(start(alias, lambda: recover_node(alias, node))) == 1
    assert tables_of(alias) == {jobs[0].id: [TimerJob], jobs[1].id: [TimerJob], jobs[2].id: [Job]}
    assert set(TimerJob.objects.using(alias).values_list("lost_runs", "attempts")) == {(0, 1)}


@servers
def test_a_group_waits_for_a_person_and_sees_what_was_changed(alias):
    jobs = works(alias, 3)
    with held(alias) as inside:
        inside(lambda: set_priority(jobs[1].id, 7, using=alias))
        inside(lambda: Job.objects.using(alias).filter(pk=jobs[2].id).update(retries=1))
        waiting = start(alias, lambda: fail_jobs(alias, failed(alias, jobs)))
        wait_until_waiting(alias, waiting)
    assert [type(row) for row in finish(waiting)] == [TimerJob, TimerJob, DeadLetterJob]
    assert TimerJob.objects.using(alias).get(pk=jobs[1].id).priority == 7


@pytest.mark.gate
def test_groups_and_suspensions_at_the_same_time(alias):
    """Whoever comes first: a job that a suspension covers ends suspended, at the latest when it is swept."""
    for turn in range(4):
        tenant = f"t{turn}"
        jobs = works(alias, 10, tenant_id=tenant)
        moved, _ = together(
            alias,
            lambda jobs=jobs: fail_jobs(alias, failed(alias, jobs)),
            lambda tenant=tenant: suspend(tenant_id=tenant, using=alias),
        )
        assert all(moved)
        tables = {tables_of(alias)[job.id][0] for job in jobs}
        assert tables <= {TimerJob, SuspendedJob}


@pytest.mark.gate
def test_many_nodes_fail_and_release_the_same_jobs(alias):
    """No deadlock and no job lost, whatever the order in which the groups name them."""
    for _ in range(5):
        jobs = works(alias, 40, process_instance_id="")

        def node(seed, jobs=jobs):
            mine = random.Random(seed).sample(jobs, 25)
            return lambda: [row.pk for row in fail_jobs(alias, failed(alias, mine)) if row is not None]

        *counted, released = together(
            alias, node(1), node(2), node(3), lambda jobs=jobs: release_jobs(alias, jobs[:10])
        )
        ids = [pk for each in counted for pk in each]
        assert len(ids) == len(set(ids))
        assert len(ids) + released <= len(jobs)
        tables = tables_of(alias)
        assert {pk: [TimerJob] for pk in ids}.items() <= tables.items()
        assert len(tables) == len(jobs)
        for table in (Job, TimerJob):
            table.objects.using(alias).all().delete()
