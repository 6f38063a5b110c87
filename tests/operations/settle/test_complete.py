"""Success: rows deleted many at once, counted only if owner and revision are still those of the acquisition."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from django.db import transaction

from jobexec.models import Job, JobLog
from jobexec.operations import complete_jobs, release_jobs
from tests.support.factories import HANDLER, a_run, acquire, make_job, work

pytestmark = [pytest.mark.every_database, pytest.mark.smoke]

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_deletes_many_in_few_statements(alias, django_assert_max_num_queries):
    for number in range(30):
        make_job(alias, process_instance_id=f"p{number % 3}")
    jobs = acquire(alias)
    with django_assert_max_num_queries(12, using=alias):
        assert complete_jobs(alias, [(job, a_run(alias)) for job in jobs]) == {job.id for job in jobs}
    assert not Job.objects.using(alias).exists()
    assert complete_jobs(alias, []) == set()


def test_what_is_no_longer_ours_does_not_count_and_stays(alias):
    mine, foreign, anew = (work(alias) for _ in range(3))
    release_jobs(alias, [anew, foreign])
    (again,) = acquire(alias, "one", limit=1)
    (taken,) = acquire(alias, "two")
    late = [(job, a_run(alias)) for job in (mine, foreign, anew)]
    assert complete_jobs(alias, late) == {mine.id}
    assert complete_jobs(alias, late) == set(), "the second try of a commit in doubt finds nothing"
    assert set(Job.objects.using(alias).values_list("pk", flat=True)) == {again.id, taken.id}
    assert JobLog.objects.using(alias).count() == 1


@pytest.mark.gate
@pytest.mark.transactional
@pytest.mark.parametrize("late", [1, 2], ids=["one", "two"])
@pytest.mark.parametrize("instance", ["", "p"])
@pytest.mark.parametrize("level", ["failures", "activity"])
def test_in_a_transaction_of_its_own_what_is_no_longer_ours_does_not_count_and_stays(
    alias, settings, level, instance, late
):
    """Where a statement may delete all of them or nothing."""
    settings.JOBEXEC = {**settings.JOBEXEC, "HISTORY_LEVEL": level}
    mine, foreign, done = (work(alias, process_instance_id=instance and f"{instance}{at}") for at in range(3))
    release_jobs(alias, [foreign])
    (taken,) = acquire(alias, "two")
    assert complete_jobs(alias, [(done, a_run(alias))]) == {done.id}
    jobs = [foreign, mine][:late]
    assert complete_jobs(alias, [(job, a_run(alias)) for job in jobs]) == {job.id for job in jobs if job is mine}
    left = {taken.id} if late == 2 else {taken.id, mine.id}
    assert set(Job.objects.using(alias).values_list("pk", flat=True)) == left
    more = [work(alias) for _ in range(4)]
    assert complete_jobs(alias, [(job, a_run(alias)) for job in more]) == {job.id for job in more}
    assert set(Job.objects.using(alias).values_list("pk", flat=True)) == left
    gone = {done.id, *(job.id for job in more), *({mine.id} - left)} if level == "activity" else set()
    assert sorted(JobLog.objects.using(alias).values_list("job_id", flat=True)) == sorted(gone)


@pytest.mark.gate
@pytest.mark.transactional
def test_without_autocommit_what_is_deleted_is_told(alias, settings):
    settings.JOBEXEC = {**settings.JOBEXEC, "HISTORY_LEVEL": "failures"}
    mine, foreign = work(alias), work(alias)
    release_jobs(alias, [foreign])
    acquire(alias, "two")
    transaction.set_autocommit(False, using=alias)
    try:
        assert complete_jobs(alias, [(job, a_run(alias)) for job in (mine, foreign)]) == {mine.id}
        transaction.commit(using=alias)
    finally:
        transaction.rollback(using=alias)
        transaction.set_autocommit(True, using=alias)
    assert set(Job.objects.using(alias).values_list("pk", flat=True)) == {foreign.id}


def test_the_owner_alone_is_enough_to_fence(alias):
    job = work(alias)
    assert complete_jobs(alias, [(replace(job, lock_owner="two"), a_run(alias))]) == set()
    assert complete_jobs(alias, [(replace(job, revision=job.revision + 1), a_run(alias))]) == set()
    assert complete_jobs(alias, [(job, a_run(alias))]) == {job.id}


@pytest.mark.parametrize("change", [{"priority": 7}, {"retries": 9}, {"suspend_requested": True}])
def test_changing_a_running_job_does_not_fence_it(alias, change):
    from jobexec.operations import set_priority, set_retries, suspend

    job = work(alias)
    if "priority" in change:
        assert set_priority(job.id, 7, using=alias)
    elif "retries" in change:
        assert set_retries(job.id, 9, using=alias)
    else:
        assert suspend(job.id, using=alias)
    assert [getattr(row, name) for row in Job.objects.using(alias) for name in change] == list(change.values())
    assert complete_jobs(alias, [(job, a_run(alias))]) == {job.id}


def test_jobs_of_two_owners_in_one_group(alias):
    jobs = [work(alias, "one", process_instance_id="p"), work(alias, "two", process_instance_id="q")]
    assert complete_jobs(alias, [(job, a_run(alias)) for job in jobs]) == {job.id for job in jobs}
    assert sorted(JobLog.objects.using(alias).values_list("job_id", flat=True)) == sorted(job.id for job in jobs)
    make_job(alias, process_instance_id="p")
    make_job(alias, process_instance_id="q")
    assert len(acquire(alias, "three")) == 2


@pytest.mark.parametrize(("level", "logged"), [("none", 0), ("failures", 0), ("activity", 1), ("full", 2)])
def test_the_log(alias, configure, frozen, level, logged):
    configure(HISTORY_LEVEL=level)
    job = work(alias, due_date=NOW - timedelta(seconds=5), tenant_id="t", process_instance_id="p", priority=2)
    frozen.tick(3)
    complete_jobs(alias, [(job, a_run(alias, duration=2.0))])
    assert JobLog.objects.using(alias).count() == logged
    if logged:
        entry = JobLog.objects.using(alias).get(state="successful")
        assert (entry.job_id, entry.handler_type, entry.tenant_id, entry.process_instance_id) == (
            job.id,
            HANDLER,
            "t",
            "p",
        )
        assert (entry.attempt, entry.retries, entry.priority, entry.node) == (1, 3, 2, "node")
        assert (entry.wait, entry.duration, entry.timestamp) == (6.0, 2.0, NOW + timedelta(seconds=3))
