"""Batches: suspended, activated, cancelled and deleted by a person."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from django.db import transaction

from jobexec.exceptions import BatchNotFound, BatchOver
from jobexec.executor.execute_now import execute_now
from jobexec.identifiers import uuid7
from jobexec.models import (
    Batch,
    BatchFailure,
    BatchPart,
    DeadLetterJob,
    Job,
    JobLog,
    SuspendedJob,
    Suspension,
)
from jobexec.operations import (
    activate_batch,
    batch_progress,
    cancel_batch,
    delete_batch,
    start_batch,
    suspend_batch,
)
from jobexec.operations.batches.control import BatchProgress
from jobexec.operations.batches.jobs import EXECUTION, MONITOR, SEED
from tests.support.batches import dead, dead_letters, left, own_jobs, run_due, run_next, run_to_the_end
from tests.support.factories import acquire, make_job, table_of

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.gate
def test_suspend_and_activate(alias, frozen, small):
    batch = start_batch("requeue", dead_letters(alias, 5), using=alias)
    run_next(alias)
    other = make_job(alias)
    suspend_batch(str(batch.pk), using=alias)
    assert [job.id for job in acquire(alias)] == [other.pk]
    assert left(alias, batch) == {EXECUTION: 2, SEED: 1}
    assert SuspendedJob.objects.using(alias).filter(batch_id=batch.pk).count() == 3
    activate_batch(batch.pk, using=alias)
    assert not Suspension.objects.using(alias).exists()
    assert run_to_the_end(alias, frozen, batch).changed == 5


@pytest.mark.gate
def test_cancel(alias, frozen, small):
    rows = dead_letters(alias, 9)
    batch = start_batch("requeue", dead(alias).all(), using=alias)
    run_next(alias)
    run_next(alias)
    suspend_batch(batch.pk, using=alias)
    frozen.tick(1)
    cancelled = cancel_batch(batch.pk, using=alias)
    assert (cancelled.state, cancelled.end_time) == ("cancelled", NOW + timedelta(seconds=1))
    assert (cancelled.total, cancelled.changed, cancelled.skipped) == (4, 2, 0)
    assert left(alias, batch) == {} and not BatchPart.objects.using(alias).exists()
    assert not Suspension.objects.using(alias).exists()
    assert [table_of(alias, row) for row in rows] == [Job] * 2 + [DeadLetterJob] * 7
    assert JobLog.objects.using(alias).filter(state="cancelled").count() == 2, "a piece and the seed"
    assert batch_progress(batch) == BatchProgress(total=4, changed=2, skipped=0, open=2, failed_jobs=0)


@pytest.mark.gate
def test_cancel_goes_through_large_ones_in_pages(alias, configure, monkeypatch):
    configure(INVOCATIONS_PER_BATCH_JOB=1)
    monkeypatch.setattr("jobexec.operations.batches.work._PAGE", 4)
    monkeypatch.setattr("jobexec.operations.batches.work._FOLD", 3)
    batch = start_batch("requeue", dead_letters(alias, 10), using=alias)
    for _ in range(4):
        run_next(alias)
    cancelled = cancel_batch(batch.pk, using=alias)
    assert (cancelled.changed, left(alias, batch), BatchPart.objects.using(alias).count()) == (3, {}, 0)


@pytest.mark.gate
def test_jobs_in_a_nodes_hands_do_nothing_after_a_cancellation(alias, small):
    rows = dead_letters(alias, 3)
    batch = start_batch("requeue", dead(alias).all(), using=alias)
    run_next(alias)
    in_hand = acquire(alias)
    assert len(in_hand) == 3
    cancel_batch(batch.pk, using=alias)
    assert left(alias, batch) == {EXECUTION: 2, MONITOR: 1}
    Job.objects.using(alias).update(lock_owner=None)
    run_due(alias)
    assert {table_of(alias, row) for row in rows} == {DeadLetterJob}
    assert left(alias, batch) == {}
    batch.refresh_from_db()
    assert (batch.changed, batch.skipped, batch.state) == (0, 0, "cancelled")


@pytest.mark.gate
def test_a_cancellation_that_was_interrupted_is_finished_by_its_jobs(alias, frozen, small, monkeypatch):
    batch = start_batch("requeue", dead_letters(alias, 3), using=alias)
    run_next(alias)
    with monkeypatch.context() as patch:
        patch.setattr("jobexec.operations.batches.control.clear_some", lambda using, id: False)
        cancel_batch(batch.pk, using=alias)
    assert left(alias, batch) == {EXECUTION: 2, MONITOR: 1}
    execute_now(own_jobs(alias).get(handler_type=MONITOR).pk, using=alias)
    run_due(alias)
    assert left(alias, batch) == {} and not BatchPart.objects.using(alias).exists()


def test_cancelling_twice_does_what_an_interrupted_call_has_left(alias, small, monkeypatch):
    batch = start_batch("requeue", dead_letters(alias, 3), using=alias)
    run_next(alias)
    with monkeypatch.context() as patch:
        patch.setattr("jobexec.operations.batches.control.clear_some", lambda using, id: False)
        cancel_batch(batch.pk, using=alias)
    cancel_batch(batch.pk, using=alias)
    assert left(alias, batch) == {}


def test_what_is_over(alias, frozen):
    completed = run_to_the_end(alias, frozen, start_batch("requeue", [], using=alias))
    cancelled = cancel_batch(start_batch("requeue", [], using=alias).pk, using=alias)
    for verb in (suspend_batch, activate_batch):
        for batch in (completed, cancelled):
            with pytest.raises(BatchOver, match=str(batch.pk)):
                verb(batch.pk, using=alias)
    with pytest.raises(BatchOver, match="has completed"):
        cancel_batch(completed.pk, using=alias)


@pytest.mark.parametrize("verb", [suspend_batch, activate_batch, cancel_batch, delete_batch])
@pytest.mark.parametrize("id", ["nothing", UUID(int=1), str(UUID(int=1))])
def test_unknown_batches(alias, verb, id):
    with pytest.raises(BatchNotFound, match="There is no batch"):
        verb(id, using=alias)


@pytest.mark.gate
def test_delete_while_it_runs_and_when_it_is_over(alias, frozen, small):
    for finish in (False, True):
        rows = dead_letters(alias, 5)
        other = start_batch("requeue", [], using=alias)
        batch = start_batch("requeue", [*rows, uuid7()], using=alias)
        run_next(alias)
        run_next(alias)
        if finish:
            run_to_the_end(alias, frozen, batch)
        delete_batch(batch.pk, using=alias)
        assert left(alias, batch) == {}
        assert Batch.objects.using(alias).get() == other
        assert not BatchPart.objects.using(alias).exists() and not BatchFailure.objects.using(alias).exists()
        delete_batch(other.pk, using=alias)


@pytest.mark.gate
def test_a_job_in_hand_of_a_batch_that_is_deleted_does_nothing(alias):
    rows = dead_letters(alias, 2)
    batch = start_batch("requeue", rows, using=alias)
    run_next(alias)
    acquire(alias)
    delete_batch(batch.pk, using=alias)
    Job.objects.using(alias).update(lock_owner=None)
    assert run_due(alias) == 2
    assert {table_of(alias, row) for row in rows} == {DeadLetterJob}


def test_a_refusal_leaves_the_callers_transaction_as_it_is(alias, frozen):
    batch = run_to_the_end(alias, frozen, start_batch("requeue", [], using=alias))
    with transaction.atomic(using=alias):
        for verb in (suspend_batch, cancel_batch):
            with pytest.raises(BatchOver):
                verb(batch.pk, using=alias)
        job = make_job(alias)
    assert Job.objects.using(alias).filter(pk=job.pk).exists()
