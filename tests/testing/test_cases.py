"""The same for classes of unittest; these classes are what a project would write."""

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import Group
from django.test import TestCase

from jobexec import job
from jobexec.handlers import registry
from jobexec.models import TimerJob
from jobexec.testing import JobsTestCase, JobsTransactionTestCase, JobTestMixin, ManualExecutor


class Shop:
    """Handlers that are there during a test."""

    def setUp(self):
        isolated = registry.isolated()
        isolated.__enter__()
        self.addCleanup(isolated.__exit__, None, None, None)

        def greet(name):
            Group.objects.create(name=name)
            return name

        async def agreet(name):
            await Group.objects.acreate(name=name)
            return name

        def broken():
            raise ValueError("no")

        self.greet = job(name="shop.greet")(greet)
        self.agreet = job(name="shop.agreet")(agreet)
        self.broken = job(name="shop.broken", retries="R2/PT5M")(broken)
        super().setUp()


class Verbs(Shop):
    def test_the_verbs(self):
        with self.captured_jobs() as captured:
            self.greet.enqueue("one")
        self.assert_enqueued(self.greet, args=["one"], count=1)
        self.refute_enqueued(self.broken)
        captured.assert_enqueued(self.greet)
        self.assert_outcomes(self.run_jobs(), ["successful"])
        self.refute_enqueued(self.greet)
        self.assertEqual(Group.objects.get().name, "one")

    def test_immediate(self):
        with self.immediate_jobs():
            self.greet.enqueue("one")
            self.assertEqual(Group.objects.count(), 1)

    def test_the_clock(self):
        clock = self.control_jobs_clock()
        self.broken.enqueue()
        self.assert_outcomes(self.run_jobs(reraise=False), ["failed"])
        clock.advance(300)
        self.assert_outcomes(self.job_executor.run_due(reraise=False), ["failed"])
        self.assertEqual(TimerJob.objects.count(), 0)

    async def test_async(self):
        await self.greet.aenqueue("one")
        await self.agreet.aenqueue("two")
        results = await self.job_executor.arun_until_empty()
        self.assert_outcomes(results, ["successful", "successful"])
        self.assertEqual(await Group.objects.acount(), 2)
        self.assertIsNone(await self.job_executor.arun_next())
        self.assertEqual(await self.job_executor.arun_due(), [])
        self.assertEqual(await self.job_executor.atick(), [])

    def test_outcomes_that_are_others(self):
        self.greet.enqueue("one")
        results = self.run_jobs()
        with self.assertRaisesMessage(AssertionError, "shop.greet"):
            self.assert_outcomes(results, ["failed"])


class TestCaseTests(Verbs, JobsTestCase):
    def test_hooks_that_wait_for_the_commit(self):
        with self.captureOnCommitCallbacks(execute=True):
            self.greet.enqueue_on_commit("one")
        self.assert_outcomes(self.run_jobs(), ["successful"])


class TransactionTestCaseTests(Verbs, JobsTransactionTestCase):
    pass


class OptionsTests(Shop, JobTestMixin, TestCase):
    jobexec_options = {"reraise": False, "max_jobs": 2}

    def test_they_are_those_of_the_executor(self):
        self.assertIs(self.job_executor.reraise, False)
        self.assertEqual(self.job_executor.max_jobs, 2)


@pytest.mark.django_db(transaction=True)
def test_async_without_django_s_test_case(handle):
    """As pytest-asyncio and anyio run a test: on a loop of their own, without Django's wrapper."""
    import asyncio

    greet = handle(lambda name: name, name="shop.greets")

    async def test():
        await greet.aenqueue("one")
        return await ManualExecutor().arun_until_empty()

    assert [each.value for each in asyncio.run(test())] == ["one"]


@pytest.mark.django_db
def test_async_through_sync(handle, jobexec):
    async def greets(name):
        return name

    handle(greets).enqueue("one")
    assert [each.value for each in async_to_sync(jobexec.arun_until_empty)()] == ["one"]
