"""Jobs that a person gives up, and what is known of one job."""

from datetime import UTC, datetime, timedelta

import pytest

from jobexec import signals
from jobexec.exceptions import DoNotRetry, InvalidJob, JobNotFound
from jobexec.identifiers import uuid7
from jobexec.models import DeadLetterJob, Incident, Job, SuspendedJob, TimerJob
from jobexec.operations import complete_jobs, fail_job, job_log, move_to_dead_letter, requeue, stack_trace
from jobexec.operations.values.fingerprint import fingerprint
from tests.support.factories import a_failure, a_run, acquire, make_job, make_row, reload, table_of, work

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
FAILED = {"exception_message": "ValueError: no", "exception_stack": "Traceback ..."}


@pytest.mark.parametrize("table", [Job, TimerJob, SuspendedJob])
def test_whatever_waits(alias, table):
    row = make_row(table, alias, retries=3, attempts=1, due_date=NOW + timedelta(days=1), **FAILED)
    assert move_to_dead_letter(row, "The customer has left.\x00", using=alias).changed == [row.pk]
    dead = DeadLetterJob.objects.using(alias).get()
    assert (dead.retries, dead.attempts, dead.died_at, dead.due_date) == (0, 1, NOW, row.due_date)
    assert (dead.exception_message, dead.exception_stack) == ("The customer has left.\\x00", "Traceback ...")
    assert dead.fingerprint == fingerprint(row.handler_type, dead.exception_message)
    incident = Incident.objects.using(alias).get()
    assert (incident.job_id, incident.state, incident.message) == (row.pk, "open", dead.exception_message)
    assert requeue(row.pk, using=alias)
    assert [job.id for job in acquire(alias)] == [row.pk]


def test_without_a_reason(alias):
    failed, new = make_row(TimerJob, alias, **FAILED), make_job(alias)
    move_to_dead_letter([failed, new], using=alias)
    assert reload(alias, failed).exception_message == "ValueError: no"
    assert reload(alias, failed).fingerprint == fingerprint(failed.handler_type, *FAILED.values())
    assert reload(alias, new).exception_message == "It was moved to the dead letters by hand."


def test_not_while_it_runs_nor_twice(alias):
    running, dead = work(alias), make_row(DeadLetterJob, alias)
    result = move_to_dead_letter([running.id, dead], using=alias)
    assert result.skipped[running.id] == "it is running or queued on one"
    assert result.skipped[dead.pk] == "not possible for a job that is dead letter"
    assert complete_jobs(alias, [(running, a_run(alias))]) == {running.id}


@pytest.mark.transactional
def test_it_is_told(alias):
    told = []

    def receiver(sender, job, error, **values):
        told.append((sender, job.pk, type(error), str(error)))

    signals.job_dead_lettered.connect(receiver)
    try:
        row = make_job(alias)
        move_to_dead_letter(row, "why", using=alias)
    finally:
        signals.job_dead_lettered.disconnect(receiver)
    assert told == [(DeadLetterJob, row.pk, DoNotRetry, "why")]


@pytest.mark.parametrize("reason", [None, 7])
def test_a_reason_is_a_text(alias, reason):
    row = make_job(alias)
    with pytest.raises(InvalidJob, match=f"reason: expected a string, got {reason}"):
        move_to_dead_letter(row, reason, using=alias)
    assert table_of(alias, row) is Job


class TestWhatIsKnown:
    def test_the_log_in_order_also_of_one_that_is_gone(self, alias, frozen):
        job, other = work(alias), work(alias, "two")
        fail_job(alias, job, a_failure("first", retry_at=NOW), a_run(alias))
        fail_job(alias, other, a_failure(), a_run(alias))
        Job.objects.using(alias).create(handler_type="h")
        TimerJob.objects.using(alias).filter(pk=job.id).delete()
        frozen.tick()
        again = work(alias, "three", id=job.id)
        complete_jobs(alias, [(again, a_run(alias))])
        assert [entry.state for entry in job_log(str(job.id), using=alias)] == ["failed", "successful"]
        assert [entry.exception_message for entry in job_log(job.id, using=alias)] == ["first", ""]

    def test_no_log(self, alias):
        assert list(job_log(uuid7(), using=alias)) == []
        with pytest.raises(JobNotFound, match="expected a UUID"):
            job_log("x", using=alias)

    def test_the_stack_trace(self, alias):
        new, job = make_job(alias), make_row(TimerJob, alias, **FAILED)
        assert stack_trace(str(job.pk), using=alias) == "Traceback ..."
        assert stack_trace(new.pk, using=alias) == ""

    @pytest.mark.parametrize("id", [uuid7(), "x"])
    def test_of_no_job(self, alias, id):
        with pytest.raises(JobNotFound):
            stack_trace(id, using=alias)
