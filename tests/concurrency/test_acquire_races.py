"""Acquirers beside each other: no job is taken twice, and no two exclusive jobs of one process instance."""

from collections import Counter
from datetime import timedelta

import pytest
from django.db import connections, transaction

from jobexec.models import ExclusiveLock, Job
from jobexec.operations import acquire_jobs, complete_jobs
from jobexec.operations.acquire import acquire as acquire_module
from jobexec.operations.nodes import cluster_lock
from jobexec.operations.rows.exclusive import lock_instances
from jobexec.operations.values.acquired_job import ServedJobs
from tests.support.factories import LOCK_TIME, a_run, acquire, make_job, make_row
from tests.support.threads import finish, held, start, together, undo, wait_until_waiting

pytestmark = pytest.mark.transactional
servers = pytest.mark.databases("postgresql", "mariadb")
OWNERS = ("one", "two", "three")


def result_of(alias, owner, limit=100, strategy="auto"):
    return acquire_jobs(alias, owner, limit, ServedJobs(), lock_time=LOCK_TIME, strategy=strategy)


def until_nothing_is_found(alias, owner, strategy):
    """Acquire small pages until there is nothing; what this owner got."""
    taken, empty = [], 0
    while empty < 3:
        page = result_of(alias, owner, 5, strategy)
        taken += page.jobs
        empty = 0 if page.jobs or page.lock_failures or page.lock_taken else empty + 1
    return taken


def test_no_job_is_taken_twice(alias, strategy):
    rows = [make_job(alias) for _ in range(36)]
    taken = together(alias, *(lambda o=owner: until_nothing_is_found(alias, o, strategy) for owner in OWNERS))
    assert Counter(job.id for page in taken for job in page) == Counter(row.pk for row in rows)
    for owner, jobs in zip(OWNERS, taken, strict=True):
        for job in jobs:
            row = Job.objects.using(alias).get(pk=job.id)
            assert (row.lock_owner, row.revision) == (owner, job.revision)


@pytest.mark.gate
def test_no_two_hold_exclusive_jobs_of_one_process_instance(alias, strategy):
    for number in range(48):
        make_job(alias, process_instance_id=f"p{number % 12}", exclusive=number % 9 != 0)
    taken = together(alias, *(lambda o=owner: until_nothing_is_found(alias, o, strategy) for owner in OWNERS))
    holders = {}
    for owner, jobs in zip(OWNERS, taken, strict=True):
        for job in jobs:
            if job.exclusive:
                holders.setdefault(job.process_instance_id, set()).add(owner)
    assert len(holders) == 12
    assert {len(owners) for owners in holders.values()} == {1}
    rows = dict(ExclusiveLock.objects.using(alias).values_list("process_instance_id", "lock_owner"))
    assert rows == {instance: owner for instance, (owner,) in holders.items()}


@pytest.mark.gate
def test_everything_is_done_once_though_all_take_and_settle_at_once(alias, strategy):
    rows = [make_job(alias, process_instance_id=f"p{number % 4}") for number in range(24)]

    def take_and_settle(owner):
        done = []
        while Job.objects.using(alias).exists():
            for job in acquire(alias, owner, 3, strategy=strategy):
                done += complete_jobs(alias, [(job, a_run(alias))])
        return done

    done = together(alias, *(lambda o=owner: take_and_settle(o) for owner in OWNERS))
    assert Counter(pk for part in done for pk in part) == Counter(row.pk for row in rows)
    assert not ExclusiveLock.objects.using(alias).exists()


@servers
def test_rows_that_others_are_locking_are_passed_over(alias):
    rows = [make_job(alias) for _ in range(5)]
    if alias == "mariadb":
        # Sorting a small table instead of reading the index locks all of it: let it be large enough for the index.
        Job.objects.using(alias).bulk_create([Job(handler_type="x", category="foreign") for _ in range(1000)])
        with connections[alias].cursor() as cursor:
            cursor.execute("ANALYZE TABLE jobexec_job")
    with held(alias) as inside:
        first = inside(lambda: acquire(alias, "one", 3, strategy="skip_locked"))
        second = finish(start(alias, lambda: acquire(alias, "two", strategy="skip_locked")))
    assert [job.id for job in first] == [row.pk for row in rows[:3]]
    assert [job.id for job in second] == [row.pk for row in rows[3:]], "without waiting"


@servers
@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_optimistic_waits_for_the_row_and_then_loses_it_or_gets_it(alias, end):
    rows = [make_job(alias) for _ in range(2)]
    with held(alias) as inside:
        inside(lambda: acquire(alias, "one", 1, strategy="optimistic"))
        other = start(alias, lambda: result_of(alias, "two", strategy="optimistic"))
        wait_until_waiting(alias, other)
        if end == "rollback":
            inside(undo)
    result = finish(other)
    expected = rows[1:] if end == "commit" else rows
    assert [job.id for job in result.jobs] == [row.pk for row in expected]
    assert result.lock_failures == (end == "commit")


@servers
@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_of_two_that_insert_the_lock_row_one_waits_and_gets_nothing(alias, strategy, end):
    row = make_job(alias, process_instance_id="p")
    with held(alias) as inside:
        assert inside(lambda: lock_instances(alias, "one", ["p"])) == {"p"}
        other = start(alias, lambda: result_of(alias, "two", strategy=strategy))
        wait_until_waiting(alias, other)
        if end == "rollback":
            inside(undo)
    result = finish(other)
    if end == "commit":
        assert (result.jobs, result.blocked) == ([], 1)
        assert Job.objects.using(alias).get().lock_owner is None
    else:
        assert [job.id for job in result.jobs] == [row.pk]
    assert ExclusiveLock.objects.using(alias).get().lock_owner == ("one" if end == "commit" else "two")


@servers
def test_the_instance_is_free_the_moment_its_last_job_is_settled(alias, strategy):
    make_job(alias, process_instance_id="p")
    (job,) = acquire(alias, "one")
    sibling = make_job(alias, process_instance_id="p")
    with held(alias) as inside:
        inside(lambda: complete_jobs(alias, [(job, a_run(alias))]))
        assert finish(start(alias, lambda: acquire(alias, "two", strategy=strategy))) == [], "not committed yet"
    assert [job.id for job in acquire(alias, "two", strategy=strategy)] == [sibling.pk]


@servers
def test_enqueueing_waits_for_nobody_and_is_invisible_until_its_commit(alias, strategy):
    make_job(alias, process_instance_id="p")
    with held(alias) as acquirer:
        acquirer(lambda: acquire(alias, "one", strategy=strategy))
        with held(alias) as creator:
            creator(lambda: make_job(alias, process_instance_id="p"))
            late = creator(lambda: make_job(alias, process_instance_id="q"))
            if strategy == "skip_locked":
                assert finish(start(alias, lambda: acquire(alias, "two", strategy=strategy))) == []
    assert [job.id for job in acquire(alias, "two", strategy=strategy)] == [late.pk]


@pytest.mark.gate
def test_one_has_the_global_lock(alias):
    """However often it changes hands, at every moment one node has it and the tokens grow."""
    tokens = []

    def take_often(owner):
        taken = 0
        while taken < 10:
            if (token := cluster_lock.take(alias, owner, timedelta(minutes=1))) is not None:
                tokens.append(token)
                with transaction.atomic(alias):
                    assert cluster_lock.confirm(alias, owner, token)
                assert cluster_lock.release(alias, owner, token)
                taken += 1

    together(alias, *(lambda o=owner: take_often(o) for owner in OWNERS))
    assert tokens == list(range(1, 31))


@servers
def test_a_look_at_the_global_lock_never_waits(alias):
    """Who is just using it has its row locked; others turn away at once."""
    token = cluster_lock.take(alias, "one", timedelta(minutes=1))
    with held(alias) as inside:
        assert inside(lambda: cluster_lock.confirm(alias, "one", token))
        assert cluster_lock.take(alias, "two", timedelta(0)) is None
    assert cluster_lock.take(alias, "two", timedelta(0)) is None


@servers
def test_no_sibling_runs_before_one_whose_row_somebody_just_locks(alias):
    """A page passes over it; those behind it would be first."""
    rows = [make_job(alias, process_instance_id="p") for _ in range(4)]
    alone = make_job(alias, process_instance_id="q")
    with held(alias) as other:
        other(lambda: list(Job.objects.using(alias).select_for_update().filter(pk=rows[0].pk)))
        page = result_of(alias, "one", strategy="skip_locked")
        assert ([job.id for job in page.jobs], page.lock_failures) == ([alone.pk], 3)
        assert set(ExclusiveLock.objects.using(alias).values_list("process_instance_id", flat=True)) == {"q"}
    page = result_of(alias, "two", strategy="skip_locked")
    assert [job.id for job in page.jobs] == [row.pk for row in rows]


@servers
def test_those_in_front_of_a_locked_row_run_and_those_behind_it_wait(alias):
    rows = [make_job(alias, process_instance_id="p") for _ in range(4)]
    with held(alias) as other:
        other(lambda: list(Job.objects.using(alias).select_for_update().filter(pk=rows[2].pk)))
        page = result_of(alias, "one", strategy="skip_locked")
    assert [job.id for job in page.jobs] == [row.pk for row in rows[:2]]
    complete_jobs(alias, [(job, a_run(alias)) for job in page.jobs])
    assert [job.id for job in result_of(alias, "two").jobs] == [row.pk for row in rows[2:]]


def test_a_sibling_that_another_node_changed_meanwhile_keeps_those_behind_it_waiting(alias, monkeypatch):
    rows = [make_job(alias, process_instance_id="p") for _ in range(3)]
    real = acquire_module._compare_and_set

    def lose_the_first(using, owner, jobs, until):
        Job.objects.using(using).filter(pk=rows[0].pk).update(revision=99)
        return real(using, owner, jobs, until)

    with monkeypatch.context() as patch:
        patch.setattr(acquire_module, "_compare_and_set", lose_the_first)
        page = result_of(alias, "one", strategy="optimistic")
    assert (page.jobs, page.lock_failures) == ([], 3)
    assert not ExclusiveLock.objects.using(alias).exists()
    assert not Job.objects.using(alias).exclude(lock_owner=None).exists()
    assert [job.id for job in result_of(alias, "one", strategy="optimistic").jobs] == [row.pk for row in rows]


def test_a_sibling_that_this_node_does_not_serve_keeps_nobody_waiting(alias):
    make_row(Job, alias, process_instance_id="p", category="mail")
    make_row(Job, alias, process_instance_id="p", deployment_id="other:1")
    mine = make_job(alias, process_instance_id="p")
    assert [job.id for job in result_of(alias, "one").jobs] == [mine.pk]
