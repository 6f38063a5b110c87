"""Batches in an executor: its threads do the pieces beside each other and beside other jobs."""

import threading
from dataclasses import replace

import pytest

from jobexec.handlers.registry import all_handlers
from jobexec.models import (
    JOB_TABLES,
    Batch,
    BatchFailure,
    BatchPart,
    DeadLetterJob,
    Job,
    JobDefinition,
    JobLog,
    SuspendedJob,
)
from jobexec.operations import (
    activate_batch,
    batch_progress,
    cancel_batch,
    delete_batch,
    start_batch,
    suspend_batch,
)
from jobexec.operations.batches.control import OPERATIONS
from jobexec.operations.batches.jobs import EXECUTION, MONITOR, SEED
from tests.support.batches import dead_letters
from tests.support.factories import make_job
from tests.support.waiting import TIMEOUT, passed, until

pytestmark = pytest.mark.transactional

SMALL = {"INVOCATIONS_PER_BATCH_JOB": 5, "BATCH_JOBS_PER_SEED": 4, "BATCH_POLL_TIME": 0.05}
#: Nobody here runs what is requeued.
ELSEWHERE = {"deployment_id": "elsewhere:1"}


@pytest.fixture
def started(alias, make_executor):
    """An executor that works on what is there; `started(**settings)`."""

    def start(**keys):
        executor = make_executor({"WAIT_TIME": 0.01, "MAX_WAIT": 0.1, "DEPLOYMENT_AWARE": True}, **{**SMALL, **keys})
        executor.start()
        return executor

    return start


@pytest.fixture
def held(monkeypatch):
    """Requeueing by a batch waits in its thread: `held.entered`, until `held.go`."""

    class Held:
        entered, go = threading.Event(), threading.Event()

    verb = OPERATIONS["requeue"].function

    def slow(ids, **arguments):
        Held.entered.set()
        assert Held.go.wait(TIMEOUT)
        return verb(ids, **arguments)

    monkeypatch.setitem(OPERATIONS, "requeue", replace(OPERATIONS["requeue"], function=slow))
    yield Held
    Held.go.set()


def over(alias, batch):
    return Batch.objects.using(alias).filter(pk=batch.pk, end_time__isnull=False).exists()


def jobs_of(alias, batch):
    return sum(table._base_manager.using(alias).filter(batch_id=batch.pk).count() for table in JOB_TABLES)


def test_its_jobs_are_handlers_of_every_node(alias, started):
    assert {SEED, EXECUTION, MONITOR} <= {handler.name for handler in all_handlers()}
    started()
    until(lambda: JobDefinition.objects.using(alias).filter(pk=MONITOR, atomic=True, exclusive=False).exists())


def test_from_the_beginning_to_the_end(alias, started, handle):
    done = []
    handle(done.append, name="tests.note")
    rows = dead_letters(alias, 103, **ELSEWHERE)
    started(HISTORY_LEVEL="full")
    batch = start_batch("requeue", DeadLetterJob.objects.using(alias).all(), using=alias)
    make_job(alias, handler_type="tests.note", handler_configuration={"args": [1], "kwargs": {}})
    until(lambda: over(alias, batch))
    batch.refresh_from_db()
    assert (batch.state, batch.total, batch.changed, batch.skipped, batch.parts) == ("completed", 103, 103, 0, 21)
    assert set(Job.objects.using(alias).values_list("pk", "retries", "revision")) == {(row.pk, 3, 2) for row in rows}
    until(lambda: done == [1])
    log = JobLog.objects.using(alias).filter(process_instance_id=batch.process_instance_id, state="successful")
    assert log.filter(handler_type=EXECUTION).count() == 21
    assert log.filter(handler_type=SEED).count() == 6
    assert not JobLog.objects.using(alias).filter(state="failed").exists()


@pytest.mark.gate
def test_its_end_is_seen_with_the_last_piece_and_not_at_the_next_look(alias, started):
    started(BATCH_POLL_TIME=3600, THREADS=8)
    for count in (1, 40, 100):
        batch = start_batch("requeue", dead_letters(alias, count, **ELSEWHERE), using=alias)
        until(lambda batch=batch: over(alias, batch))
        assert batch_progress(batch)[:4] == (count, count, 0, 0)


@pytest.mark.gate
def test_a_piece_that_fails_is_retried_and_done_once(alias, started, monkeypatch):
    rows = dead_letters(alias, 20, **ELSEWHERE)
    verb, failed = OPERATIONS["requeue"].function, []

    def breaks_once(ids, **arguments):
        result = verb(ids, **arguments)
        if not failed:
            failed.append(ids)
            raise KeyboardInterrupt  # an Exception would be taken for that of a job, and tried again one by one
        return result

    monkeypatch.setitem(OPERATIONS, "requeue", replace(OPERATIONS["requeue"], function=breaks_once))
    started(DEFAULT_RETRY_PLAN="R3/PT0.1S")
    batch = start_batch("requeue", rows, using=alias)
    until(lambda: over(alias, batch))
    batch.refresh_from_db()
    assert (len(failed), batch.changed, batch.skipped) == (1, 20, 0)
    assert set(Job.objects.using(alias).values_list("revision", flat=True)) == {2}
    assert not BatchFailure.objects.using(alias).exists()


@pytest.mark.gate
@pytest.mark.databases("postgresql", "mariadb")
def test_a_batch_is_suspended_while_it_runs_and_goes_on(alias, started, held):
    dead_letters(alias, 40, **ELSEWHERE)
    started(THREADS=1)
    batch = start_batch("requeue", DeadLetterJob.objects.using(alias).all(), using=alias)
    passed(held.entered)
    suspend_batch(batch.pk, using=alias)
    held.go.set()
    until(lambda: not Job.objects.using(alias).filter(batch_id=batch.pk).exists())
    waiting = SuspendedJob.objects.using(alias).filter(batch_id=batch.pk).count()
    done = batch_progress(batch).changed
    assert waiting and done < 40
    activate_batch(batch.pk, using=alias)
    until(lambda: over(alias, batch))
    assert batch_progress(batch)[:4] == (40, 40, 0, 0)


@pytest.mark.gate
@pytest.mark.databases("postgresql", "mariadb")
@pytest.mark.parametrize("verb", [cancel_batch, delete_batch])
def test_what_is_in_a_thread_when_it_is_cancelled_is_finished_and_counted(alias, started, held, verb):
    dead_letters(alias, 40, **ELSEWHERE)
    started(THREADS=1)
    batch = start_batch("requeue", DeadLetterJob.objects.using(alias).all(), using=alias)
    passed(held.entered)
    verb(batch.pk, using=alias)
    held.go.set()
    until(lambda: not jobs_of(alias, batch))
    requeued = Job.objects.using(alias).filter(deployment_id="elsewhere:1").count()
    assert requeued == 5, "one piece, and no other"
    assert not BatchPart.objects.using(alias).exists()
    if verb is cancel_batch:
        batch.refresh_from_db()
        assert (batch.state, batch.changed, batch.skipped) == ("cancelled", 5, 0)
