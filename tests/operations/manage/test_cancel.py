"""Cancelling: what waits is removed, what runs is asked to stop, and nothing that was cancelled is tried again."""

from datetime import timedelta

import pytest

from jobexec import clock, signals
from jobexec.identifiers import uuid7
from jobexec.models import DeadLetterJob, ExclusiveLock, Job, JobLog, JobProgress, SuspendedJob, TimerJob
from jobexec.operations import cancel, complete_jobs, fail_job, release_jobs
from jobexec.operations.manage.cancel import cancelled_among
from jobexec.operations.nodes.leases import NodeProfile, register_node
from jobexec.operations.rows.progress import Progress, clear_old_progress, write_progress
from jobexec.operations.settle.recover import mark_suspect_started, recover_node
from jobexec.operations.values.acquired_job import ALONE_FROM
from jobexec.operations.values.failure import Failure
from tests.support.factories import a_failure, a_run, acquire, make_job, make_row, tables_of


@pytest.fixture
def heard():
    """What was announced as cancelled."""
    jobs = []

    def hear(sender, jobs=None, heard=jobs, **kwargs):
        heard.extend(job.pk for job in jobs)

    signals.job_cancelled.connect(hear)
    yield jobs
    signals.job_cancelled.disconnect(hear)


def log_of(alias, pk):
    return list(JobLog.objects.using(alias).filter(job_id=pk).values_list("state", "attempt", "exception_message"))


@pytest.mark.transactional
@pytest.mark.parametrize("table", [Job, TimerJob, SuspendedJob])
def test_what_waits_is_removed(alias, table, heard):
    row = make_row(table, alias)
    result = cancel(row, using=alias)
    assert result.changed == [row.pk]
    assert tables_of(alias) == {}
    assert log_of(alias, row.pk) == [("cancelled", 0, "")]
    assert heard == [row.pk]


def test_a_dead_letter_is_not_cancelled(alias):
    row = make_row(DeadLetterJob, alias)
    result = cancel(row, using=alias)
    assert row.pk in result.skipped
    assert tables_of(alias) == {row.pk: [DeadLetterJob]}


@pytest.mark.transactional
def test_many_at_once_each_with_its_event_and_what_has_ended_is_skipped(alias, heard):
    waiting = [make_row(table, alias, tenant_id="acme") for table in (TimerJob, SuspendedJob)]
    running = make_job(alias, tenant_id="acme")
    acquire(alias)
    other, ended = make_job(alias, tenant_id="other"), make_job(alias, process_instance_id="order-1")
    (work,) = [job for job in acquire(alias) if job.id == ended.pk]
    complete_jobs(alias, [(work, a_run(alias))])
    result = cancel([*waiting, running, ended, uuid7()], using=alias)
    assert result.changed == [*(row.pk for row in waiting), running.pk]
    assert set(result.skipped.values()) == {"the job no longer exists"}
    assert heard == [row.pk for row in waiting], "the one that runs follows when it has ended"
    assert tables_of(alias) == {running.pk: [Job], other.pk: [Job]}
    by_queryset = cancel(Job.objects.using(alias).filter(tenant_id="other"))
    assert (by_queryset.changed, tables_of(alias)) == ([other.pk], {running.pk: [Job], other.pk: [Job]})


def test_what_runs_gets_a_flag_and_its_outcome_still_counts(alias):
    row = make_job(alias)
    (work,) = acquire(alias)
    assert cancel(row.pk, using=alias).changed == [row.pk]
    assert cancelled_among(alias, [row.pk]) == [row.pk]
    assert complete_jobs(alias, [(work, a_run(alias))]) == {row.pk}
    assert log_of(alias, row.pk) == [("successful", 1, "")]


@pytest.mark.parametrize("kind", ["error", "fatal", "conflict", "unknown", "cancelled"])
def test_however_it_fails_then_it_is_not_tried_again(alias, kind):
    row = make_job(alias, process_instance_id="order-1")
    (work,) = acquire(alias)
    cancel(row, using=alias)
    gone = fail_job(alias, work, Failure("ValueError: no", kind=kind), a_run(alias))
    assert isinstance(gone, Job)
    assert tables_of(alias) == {}
    assert not ExclusiveLock.objects.using(alias).exists()
    assert log_of(alias, row.pk) == [("cancelled", 1, "" if kind == "cancelled" else "ValueError: no")]


def test_a_handler_that_says_so_cancels_its_job(alias):
    make_job(alias)
    (work,) = acquire(alias)
    assert fail_job(alias, work, Failure("JobCancelled: ", kind="cancelled"), a_run(alias)) is not None
    assert tables_of(alias) == {}


def test_one_that_was_given_back_is_acquired_with_the_flag(alias):
    """Who acquires it next settles it without running it."""
    row = make_job(alias)
    jobs = acquire(alias)
    cancel(row, using=alias)
    release_jobs(alias, jobs)
    (work,) = acquire(alias, "another")
    assert work.cancel_requested


@pytest.mark.transactional
def test_one_that_took_its_process_with_it_is_gone(alias, heard):
    row = make_job(alias, lost_runs=ALONE_FROM)
    node = register_node(alias, NodeProfile(name="here"), timedelta(seconds=30))
    (work,) = acquire(alias, node.lock_owner)
    assert mark_suspect_started(work)
    cancel(row, using=alias)
    recover_node(alias, node)
    assert tables_of(alias) == {}
    assert heard == [row.pk]


def test_a_retry_of_another_job_is_not_touched(alias):
    first, second = make_job(alias), make_job(alias)
    works = {work.id: work for work in acquire(alias)}
    cancel(first, using=alias)
    assert fail_job(alias, works[second.pk], a_failure(retry_at=clock.now(alias)), a_run(alias)) is not None
    assert tables_of(alias) == {first.pk: [Job], second.pk: [TimerJob]}


def test_the_latest_word_about_progress_counts(alias, frozen):
    row = make_job(alias)
    write_progress(alias, [Progress(row.pk, 1, 5, None)])
    frozen.tick(2)
    write_progress(alias, [Progress(row.pk, 1, 7, 10)])
    (progress,) = JobProgress.objects.using(alias).all()
    assert (progress.job_id, progress.attempt, progress.done, progress.total) == (row.pk, 1, 7, 10)
    assert progress.update_time == frozen.now
    assert str(progress) == "7 / 10"


def test_progress_goes_with_a_cancelled_job(alias):
    row = make_job(alias)
    (work,) = acquire(alias)
    write_progress(alias, [Progress(row.pk, 1, 5, None)])
    fail_job(alias, work, Failure("", kind="cancelled"), a_run(alias))
    assert not JobProgress.objects.using(alias).exists()


def test_what_dead_processes_said_is_forgotten_after_a_day(alias, frozen):
    held, lost = make_job(alias), make_job(alias, priority=-5)
    acquire(alias, limit=1)
    write_progress(alias, [Progress(held.pk, 1, 1, 2), Progress(lost.pk, 1, 1, 2)])
    assert clear_old_progress(alias) == 0
    frozen.tick(timedelta(days=2))
    assert clear_old_progress(alias) == 1
    assert JobProgress.objects.using(alias).get().job_id == held.pk


@pytest.mark.parametrize("target", ["abc", ["abc"], [5]])
def test_what_is_no_id(alias, target):
    with pytest.raises(ValueError, match="Expected the id of a job, a UUID, got"):
        cancel(target, using=alias)
