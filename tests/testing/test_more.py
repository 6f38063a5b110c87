"""Whatever else production does, the manual executor does."""

from datetime import timedelta

import pytest
from django.db import transaction

from jobexec import operations
from jobexec.models import Batch, BlockedJob, DeadLetterJob, Job
from jobexec.testing import ManualExecutor, assert_enqueued, captured_jobs, controlled_clock, refute_enqueued
from tests.support.factories import make_row


@pytest.mark.parametrize("strategy", ["skip_locked", "optimistic", "global_lock"])
def test_every_way_of_acquiring(alias, configure, shop, strategy):
    configure(engine={"ACQUISITION": strategy})
    shop.send.enqueue_many((number,) for number in range(3))
    shop.send.using(process_instance_id="order 7").enqueue(3)
    assert [each.value for each in ManualExecutor(alias).run_until_empty()] == [f"sent {number}" for number in range(4)]


@pytest.mark.gate
def test_a_batch(alias, configure, shop):
    configure(INVOCATIONS_PER_BATCH_JOB=2, BATCH_JOBS_PER_SEED=1)
    for number in range(5):
        make_row(DeadLetterJob, alias, handler_type="shop.send", handler_configuration={"args": [number], "kwargs": {}})
    with controlled_clock():
        dead = DeadLetterJob.objects.using(alias).all()
        operations.start_batch("requeue", dead, using=alias, arguments={"retries": 1})
        ManualExecutor(alias).run_until_empty(advance=True)
    assert sorted(shop.done) == [0, 1, 2, 3, 4]
    assert Batch.objects.using(alias).get().end_time is not None


def test_a_row_whose_arguments_are_broken_is_a_dead_letter(alias, shop):
    make_row(Job, alias, handler_type="shop.send", handler_configuration={"no": "arguments"})
    (result,) = ManualExecutor(alias, reraise=False).run_due()
    assert (result.dead, type(result.exception).__name__) == (True, "UnreadableJob")


def test_more_jobs_than_a_page(alias, shop, executor, monkeypatch):
    monkeypatch.setattr("jobexec.testing.executor._PAGE", 4)
    shop.send.enqueue_many([(number,) for number in range(9)])
    assert len(executor.run_due()) == 9
    shop.send.enqueue_many([(number,) for number in range(9)])
    assert len(executor.run_until_empty()) == 9


class TestResources:
    @pytest.fixture
    def charge(self, alias, configure, handle):
        """A job of a resource that has two permits."""
        configure(RESOURCES={"pay.example": {"limit": 2}})
        return handle(lambda number: number, "shop.charge", database=alias, resource="pay.example")

    def test_no_more_at_once_than_the_limit(self, alias, charge, executor):
        charge.enqueue_many([(number,) for number in range(5)])
        executor.run_timers()
        first, second = executor.acquire()
        assert executor.run_due() == [], "both permits are held"
        executor.settle(executor.run(first))
        assert [each.value for each in executor.run_due()] == [2]
        executor.settle(executor.run(second))
        assert [each.value for each in executor.run_due()] == [3, 4]
        charge.enqueue_many([(number,) for number in range(5)])
        assert [each.value for each in executor.run_until_empty()] == [0, 1, 2, 3, 4]

    def test_a_rate_and_a_clock_that_moves_on(self, alias, charge, configure, executor, frozen_at_noon):
        configure(RESOURCES={"pay.example": {"rate": "6/PT1M"}})
        noon = frozen_at_noon.now
        charge.enqueue_many([(number,) for number in range(3)])
        charge.using(resource=None, delay=15).enqueue("later")
        assert [each.value for each in executor.run_until_empty()] == [0]
        assert [each.value for each in executor.run_until_empty(advance=True)] == [1, "later", 2]
        assert frozen_at_noon.now == noon + timedelta(seconds=20)

    def test_a_hold_that_ends(self, alias, charge, executor, frozen_at_noon):
        operations.hold_resource("pay.example", until=frozen_at_noon.now + timedelta(hours=1), using=alias)
        charge.enqueue(1)
        assert executor.run_until_empty() == []
        assert len(executor.run_until_empty(advance=True)) == 1
        operations.hold_resource("pay.example", using=alias)
        charge.enqueue(2)
        assert executor.run_until_empty(advance=True) == [], "nobody knows when it ends"

    def test_a_job_that_waits_for_a_message_moves_no_clock(self, alias, charge, executor, frozen_at_noon):
        later = frozen_at_noon.now + timedelta(hours=1)
        operations.hold_resource("pay.example", until=later, using=alias)
        charge.using(wait_for=("approved", "1")).enqueue(1)
        assert executor.run_until_empty(advance=True) == []
        assert frozen_at_noon.now < later
        operations.publish_message("approved", key="1", using=alias)
        assert len(executor.run_until_empty(advance=True)) == 1
        assert frozen_at_noon.now == later

    def test_immediately_if_there_is_a_permit(self, alias, charge, executor):
        charge.enqueue_many([(number,) for number in range(2)])
        executor.run_timers()
        held = executor.acquire()
        with executor.immediate():
            charge.enqueue(2)
            assert BlockedJob.objects.using(alias).count() == 1
            for job in held:
                executor.settle(executor.run(job))
            charge.enqueue_many([(3,), (4,)])
        assert [each.value for each in executor.run_until_empty()] == [2]


def test_encrypted_jobs_are_seen_decrypted(alias, configure, handle):
    configure(ENCRYPTION_KEYS={"test": lambda: b"k" * 32})

    def secret(card, times=1):
        return card * times

    handler = handle(secret, encrypted=True).using(database=alias, transaction=alias)
    with captured_jobs(alias) as captured:
        row = handler.enqueue("4711", times=2)
        with transaction.atomic(using=alias):
            handler.enqueue_on_commit("on commit")
            assert [job.args for job in captured.waiting] == [("on commit",)]
    assert "4711" not in str(row.handler_configuration)
    captured.assert_enqueued(handler, args=["4711"], kwargs={"times": 2})
    assert_enqueued(handler, kwargs={"card": "4711", "times": 2}, using=alias)
    refute_enqueued(handler, args=["4712"], using=alias)
    ManualExecutor(alias).run_until_empty()
