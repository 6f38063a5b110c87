"""Batches of jobs in an executor: its threads run the children, and the last outcome ends the batch."""

import pytest

import jobexec
from jobexec.models import Batch, BatchTally
from tests.support.waiting import until

pytestmark = [pytest.mark.transactional, pytest.mark.every_database]


def test_from_the_first_child_to_what_follows(alias, make_executor, handle):
    """The monitor would look in an hour: the end is noticed with the last outcome."""
    seen = []

    def work(number):
        if number == 13:
            raise jobexec.DoNotRetry("unlucky")

    def spread(context):
        context.batch.add_many(work_job.s(number) for number in range(100))
        context.batch.seal()

    def report(context):
        seen.append(context.batch.progress())

    work_job = handle(work, database=alias)
    done = handle(report, name="tests.done", database=alias).s()
    failed = handle(report, name="tests.failed", database=alias).s()
    executor = make_executor({"WAIT_TIME": 0.01, "MAX_WAIT": 0.1}, BATCH_POLL_TIME=3600)
    batch = jobexec.batch(using=alias, on_success=done, on_failure=failed)
    batch.add(handle(spread, database=alias, atomic=True).s())
    executor.start()
    until(lambda: seen)
    assert seen == [(101, 100, 1, 0, 0)] and batch.state == "failed"
    batch.retry_failed(retries=1)
    until(lambda: batch.state == "failed")
    assert len(seen) == 1, "each call is made once"
    assert Batch.objects.using(alias).count() == 1 and BatchTally.objects.using(alias).count() < 200
