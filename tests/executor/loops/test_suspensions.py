"""Suspensions with dates, by a whole executor in real time."""

import threading
from datetime import timedelta

import pytest

from jobexec import clock
from jobexec.models import Job, SuspendedJob, Suspension
from jobexec.operations import activate, suspend
from tests.support.executor import all_gone
from tests.support.factories import make_job, tables_of
from tests.support.waiting import until

pytestmark = pytest.mark.transactional


@pytest.fixture
def begun(alias, handle):
    """When the jobs `tests.note` began."""
    begun, lock = [], threading.Lock()

    def note():
        with lock:
            begun.append(clock.now(alias))

    handle(note)
    return begun


@pytest.mark.gate
def test_jobs_wait_for_the_end_of_a_suspension_and_run_then(alias, make_executor, begun):
    for _ in range(3):
        make_job(alias, handler_type="tests.note", tenant_id="x")
    end = clock.now(alias) + timedelta(seconds=3)
    assert suspend(tenant_id="x", until=end, using=alias) == 3
    make_job(alias, handler_type="tests.note", tenant_id="x")
    executor = make_executor()
    executor.start()
    until(lambda: len(begun) == 4 and all_gone(alias))
    # The executor goes by the database's clock, and the test read its own before it started.
    assert min(begun) >= end - timedelta(seconds=1)
    until(lambda: not Suspension.objects.using(alias).exists())


@pytest.mark.gate
def test_an_end_that_is_set_while_it_runs_is_noticed(alias, make_executor, begun):
    suspend(tenant_id="x", using=alias)
    executor = make_executor(RECOVERY_INTERVAL=0.2)
    executor.start()
    job = make_job(alias, handler_type="tests.note", tenant_id="x")
    until(lambda: tables_of(alias) == {job.pk: [SuspendedJob]})
    assert activate(tenant_id="x", at=clock.now(alias) + timedelta(seconds=3), using=alias) == 0
    until(lambda: begun and all_gone(alias))


@pytest.mark.gate
def test_jobs_that_wait_are_moved_when_a_suspension_begins(alias, make_executor, handle):
    handle(lambda: None, name="tests.note")
    timer = make_job(alias, handler_type="tests.note", tenant_id="x", due_date=clock.now(alias) + timedelta(days=1))
    suspend(tenant_id="x", at=clock.now(alias) + timedelta(seconds=1), using=alias)
    executor = make_executor()
    executor.start()
    until(lambda: tables_of(alias) == {timer.pk: [SuspendedJob]})
    assert not Job.objects.using(alias).exists()
    until(lambda: Suspension.objects.using(alias).get().swept)
