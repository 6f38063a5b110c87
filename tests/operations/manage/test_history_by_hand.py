"""What a person does to history that is still to be written."""

from datetime import timedelta

import pytest
from django.db import transaction

from jobexec import clock
from jobexec.identifiers import uuid7
from jobexec.models import HistoryJob, JobLog, LogState
from jobexec.operations.manage.history_by_hand import delete_history_jobs, write_history_now
from tests.support import threads


def a_job(alias, **columns):
    due = clock.now(alias) + timedelta(hours=1)
    return HistoryJob.objects.using(alias).create(
        **{"type": "history", "handler_type": "tests.audit", "due_date": due, "retries": 9, **columns}
    )


def test_write_now(alias):
    job, other = a_job(alias, attempts=1), a_job(alias)
    result = write_history_now([job.pk], using=alias)
    assert (result.changed, result.skipped) == ([job.pk], {})
    due = dict(HistoryJob.objects.using(alias).values_list("pk", "due_date"))
    assert due[job.pk] <= clock.now(alias) < due[other.pk]
    job.refresh_from_db()
    assert (job.attempts, job.retries, job.revision) == (1, 9, 1)


def test_delete(alias):
    job, other, gone = a_job(alias), a_job(alias), uuid7()
    result = delete_history_jobs([job.pk, gone], using=alias)
    assert result.changed == [job.pk]
    assert result.skipped == {gone: "the job no longer exists"}
    assert HistoryJob.objects.using(alias).get().pk == other.pk
    entry = JobLog.objects.using(alias).get()
    assert (entry.job_id, entry.state) == (job.pk, LogState.DELETED)


@pytest.mark.transactional
@pytest.mark.databases("postgresql", "mariadb")
def test_what_a_loop_writes_at_the_moment_is_left_alone_and_not_waited_for(alias):
    job, free = a_job(alias), a_job(alias)
    with transaction.atomic(using=alias):
        assert HistoryJob.objects.using(alias).select_for_update().get(pk=job.pk)
        result = threads.start(alias, lambda: delete_history_jobs([job.pk, free.pk], using=alias)).result(
            threads.TIMEOUT
        )
    assert result.changed == [free.pk]
    assert result.skipped == {job.pk: "it is being written right now"}
    assert HistoryJob.objects.using(alias).get().pk == job.pk
