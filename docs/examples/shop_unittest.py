"""The examples in docs/how-to/jobs/test-jobs.md for unittest."""

from datetime import timedelta

from django.core import mail

from docs.examples.shop import greet, place_order, remind, send_receipt
from jobexec.testing import JobsTestCase


class OrderTests(JobsTestCase):
    def test_an_order_is_followed_by_a_receipt(self):
        place_order("7", "jane@example.org")
        self.assert_enqueued(send_receipt, args=["7"], count=1)
        self.assert_outcomes(self.run_jobs(), ["successful"])
        self.assertEqual(len(mail.outbox), 1)

    def test_the_reminder_comes_a_day_later(self):
        clock = self.control_jobs_clock()
        place_order("7", "jane@example.org")
        self.run_jobs()
        self.assert_enqueued(remind)
        clock.advance(timedelta(days=1))
        self.run_jobs()
        self.refute_enqueued(remind)

    def test_immediately(self):
        with self.immediate_jobs():
            place_order("7", "jane@example.org")
        self.assertEqual(len(mail.outbox), 1)

    def test_after_the_commit(self):
        with self.captureOnCommitCallbacks(execute=True):
            send_receipt.enqueue_on_commit("7", to="jane@example.org")
        self.assert_enqueued(send_receipt)

    async def test_async(self):
        await greet.aenqueue("7")
        (result,) = await self.job_executor.arun_until_empty()
        self.assertEqual(result.value, "Hello, 7")
