"""Batches of jobs: a process that is killed on any line leaves counters that are right; calls are made once."""

import pytest
from django.db import transaction

import jobexec
from jobexec.models import JOB_TABLES, Batch, BatchTally, Job
from jobexec.operations import complete_jobs, requeue
from jobexec.operations.batches.watch import watch
from jobexec.testing import ManualExecutor
from tests.support.factories import a_run, acquire
from tests.support.machines.killed import Killed, killed_at

pytestmark = pytest.mark.every_database


def written(alias):
    tables = [*JOB_TABLES, Batch, BatchTally]
    return [list(table._base_manager.using(alias).order_by("pk").values()) for table in tables]


def until_done(alias, act, check):
    """Do it, killed before its first statement, its second one, and so on; `check` after each. Returns the number."""
    number = 0
    while True:
        number += 1
        try:
            with transaction.atomic(alias), killed_at(alias, number):
                act()
            return number - 1
        except Killed:
            check()


@pytest.fixture
def work(alias, handle):
    def work(number):
        if number < 0:
            raise ValueError(number)

    return handle(work, database=alias, retries="R1/PT0S")


@pytest.fixture
def tell(alias, handle):
    def tell(what):
        pass

    return handle(tell, database=alias)


def told(alias):
    rows = Job.objects.using(alias).filter(handler_type="tests.tell")
    return [row.handler_configuration["args"][0] for row in rows]


@pytest.mark.gate
@pytest.mark.parametrize("fails", [False, True])
def test_the_monitor_that_ends_the_batch(alias, work, tell, fails):
    when = {"completed >= 1": tell.s("one")}
    calls = {"on_success": tell.s("success"), "on_failure": tell.s("failure"), "when": when}
    with jobexec.batch(using=alias, **calls) as batch:
        batch.add_many([work.s(1), work.s(-1 if fails else 1)])
    acquired = acquire(alias)
    ManualExecutor(using=alias, reraise=False).run_acquired([job for job in acquired if job.batch_id], [])
    before = written(alias)

    def look():
        watch(alias, batch.id, 0)

    def unchanged():
        assert written(alias) == before and told(alias) == []

    assert until_done(alias, look, unchanged) > 5
    assert batch.state == ("failed" if fails else "completed")
    assert sorted(told(alias)) == sorted(["one", "failure" if fails else "success"])
    look()
    assert len(told(alias)) == 2
    assert batch.progress() == (2, 1 if fails else 2, 1 if fails else 0, 0, 0)


def test_a_group_of_outcomes(alias, work, tell):
    """The outcomes count with the deletion of their rows, or neither; written again, they count once."""
    with jobexec.batch(using=alias, on_success=tell.s("success")) as batch:
        batch.add_many(work.s(number) for number in range(3))
    jobs = [job for job in acquire(alias) if job.batch_id]

    def settle():
        complete_jobs(alias, [(job, a_run(alias)) for job in jobs])

    def consistent():
        left = Job.objects.using(alias).filter(handler_type="tests.work").count()
        assert batch.progress().open == left == 3

    assert until_done(alias, settle, consistent) >= 1
    assert batch.progress() == (3, 3, 0, 0, 0)
    settle()
    assert batch.progress() == (3, 3, 0, 0, 0), "they were no longer ours"


def test_a_page_of_new_jobs(alias, work):
    batch = jobexec.batch(using=alias)
    before = written(alias)

    def add():
        batch.add_many([work.s(1), work.s(2)])

    def unchanged():
        assert written(alias) == before

    assert until_done(alias, add, unchanged) >= 3
    assert batch.progress() == (2, 0, 0, 0, 2)


@pytest.mark.gate
def test_a_retry_that_reopens_the_batch(alias, work, tell):
    with jobexec.batch(using=alias, on_failure=tell.s("failure")) as batch:
        row = batch.add(work.s(-1))
    ManualExecutor(using=alias, reraise=False).run_due()
    watch(alias, batch.id, 0)
    assert batch.state == "failed"
    before = written(alias)

    def retry():
        assert requeue(row.pk, using=alias)

    def unchanged():
        assert written(alias) == before

    assert until_done(alias, retry, unchanged) > 3
    assert batch.state == "running" and batch.progress() == (1, 0, 0, 0, 1)
