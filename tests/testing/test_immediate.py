"""Jobs that run as soon as they are enqueued."""

import inspect
import threading

import pytest
from django.db import connections, transaction
from django.test import TestCase

import jobexec
from jobexec import InvalidJob
from jobexec.handlers import many
from jobexec.models import Job, TimerJob
from jobexec.testing import JobsDoNotEnd, ManualExecutor, captured_jobs, immediate
from tests.support.factories import locked_ids


class Everywhere:
    def test_before_enqueue_returns(self, alias, shop):
        shop.send.enqueue(0)
        with immediate(alias):
            row = shop.send.enqueue(1)
            assert shop.done == [1]
            shop.send.enqueue_many([(2,), (3,)])
            assert shop.done == [1, 2, 3]
        assert not Job.objects.using(alias).filter(pk=row.pk).exists()
        shop.send.enqueue(4)
        # What was there before, and what comes afterwards, waits.
        assert Job.objects.using(alias).count() == 2
        assert not locked_ids(alias)

    def test_who_enqueues_sees_what_the_job_raises(self, alias, shop):
        with immediate(alias), pytest.raises(ValueError, match="no 1"):
            shop.breaks.enqueue(1)
        assert TimerJob.objects.using(alias).get().attempts == 1

    def test_what_a_job_enqueues_comes_after_it(self, alias, handle):
        seen, depths = [], set()

        def count(number):
            seen.append(f"begin {number}")
            if number < 4:
                handler.enqueue(number + 1)
            seen.append(f"end {number}")
            depths.add(len(inspect.stack(0)))

        handler = handle(count, database=alias)
        with immediate(alias):
            handler.enqueue(1)
        assert seen == [f"{word} {number}" for number in (1, 2, 3, 4) for word in ("begin", "end")]
        assert len(depths) == 1  # they do not call each other, so there is no limit to that

    def test_children_of_a_batch_run_at_once_and_its_end_comes_with_its_timer(self, alias, shop):
        with immediate(alias) as executor:
            with jobexec.batch(on_success=shop.send.s(2), using=alias) as batch:
                batch.add(shop.send.s(1))
                assert shop.done == [1]
            assert (batch.state, batch.progress().open) == ("running", 0)
            executor.run_until_empty()
        assert (batch.state, shop.done) == ("completed", [1, 2])

    def test_when_the_transaction_commits(self, alias, shop, executor):
        hooks = TestCase.captureOnCommitCallbacks(using=alias, execute=True)
        with executor.immediate(on_commit=True), hooks, transaction.atomic(using=alias):
            shop.send.enqueue(1)
            assert shop.done == []
        assert shop.done == [1]


class TestInATestCase(Everywhere):
    pass


@pytest.mark.transactional
class TestWithoutATransaction(Everywhere):
    pass


def test_what_is_due_later_waits(alias, shop):
    with immediate(alias):
        shop.send.using(delay=60).enqueue(1)
    assert shop.done == []
    assert TimerJob.objects.using(alias).count() == 1


def test_jobs_without_an_end(alias, handle):
    def again():
        handler.enqueue()

    handler = handle(again, database=alias)
    with immediate(ManualExecutor(alias, max_jobs=7)), pytest.raises(JobsDoNotEnd, match="7 jobs have run"):
        handler.enqueue()
    assert Job.objects.using(alias).count() == 1


def test_jobs_of_a_handler_that_is_not_to_be_raised(alias, shop):
    with immediate(ManualExecutor(alias, reraise=False)):
        shop.breaks.enqueue(1)
    assert TimerJob.objects.using(alias).count() == 1


def test_what_is_suspended_or_in_the_way_waits(alias, shop, executor):
    instance = shop.send.using(process_instance_id="order 7")
    instance.enqueue(1)
    (held,) = executor.acquire()
    with immediate(alias):
        instance.enqueue(2)
    assert shop.done == []
    executor.settle(executor.run(held))
    executor.run_until_empty()
    assert shop.done == [1, 2]


def test_other_databases_do_not_matter(alias, shop, executor):
    executor.using, right = "elsewhere", executor.using
    with immediate(executor):
        executor.using = right
        shop.send.enqueue(1)
    assert shop.done == []


class TestTheTransactionOfTheCall:
    """What enqueues in a transaction of its own has ended it when the job runs."""

    def test_a_unique_job(self, alias, shop):
        job = shop.breaks.using(unique=True)
        with immediate(alias), pytest.raises(ValueError, match="no 1"):
            job.enqueue(1)
        assert TimerJob.objects.using(alias).get().attempts == 1
        assert job.enqueue(1).is_duplicate

    def test_many_of_which_nobody_knows_how_many(self, alias, shop, monkeypatch):
        monkeypatch.setattr(many, "_AT_ONCE", 2)
        monkeypatch.setattr(many, "PAGE", 2)
        with immediate(alias) as executor:
            shop.send.enqueue_many((number,) for number in range(5))
            assert shop.done == [0, 1, 2, 3, 4]
            executor.reraise = False
            shop.breaks.enqueue_many((number,) for number in range(5))
        assert TimerJob.objects.using(alias).count() == 5

    def test_a_call_that_fails_runs_nothing(self, alias, shop, monkeypatch):
        monkeypatch.setattr(many, "_AT_ONCE", 1)
        monkeypatch.setattr(many, "PAGE", 1)
        with immediate(alias), captured_jobs() as captured, pytest.raises(InvalidJob):
            shop.send.enqueue_many(iter([(1,), (2, 3)]))
        assert shop.done == []
        assert not captured
        assert not Job.objects.using(alias).exists()


@pytest.mark.transactional
def test_other_threads_run_what_they_enqueue(alias, shop, handle):
    ran = []
    where = handle(lambda: ran.append(threading.current_thread().name), name="shop.where", database=alias)

    def enqueue():
        try:
            where.enqueue()
        finally:
            connections.close_all()

    with immediate(alias):
        thread = threading.Thread(target=enqueue, name="another")
        thread.start()
        thread.join(60)
        where.enqueue()
    assert ran == ["another", "MainThread"]
