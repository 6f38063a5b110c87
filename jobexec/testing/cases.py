"""The test tools for unittest's test classes."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any, ClassVar
from unittest import TestCase as UnitTestCase

from django.test import TestCase, TransactionTestCase

from .assertions import Assertions
from .clocks import ControlledClock, controlled_clock
from .executor import ManualExecutor
from .results import JobResult


class JobTestMixin(Assertions, UnitTestCase):
    """The test tools as methods, for any of Django's test cases.

    ``job_executor`` is a new :class:`~jobexec.testing.ManualExecutor` for each test, on the database
    ``jobexec_using``, with ``jobexec_options`` for its keywords.
    """

    jobexec_using: ClassVar[str] = "default"
    jobexec_options: ClassVar[dict[str, Any]] = {}

    job_executor: ManualExecutor

    def setUp(self) -> None:
        super().setUp()
        self.job_executor = ManualExecutor(self.jobexec_using, **self.jobexec_options)
        self.using = self.jobexec_using

    def run_jobs(self, **options: Any) -> list[JobResult]:
        """Run jobs until none is due; see :meth:`ManualExecutor.run_until_empty`."""
        return self.job_executor.run_until_empty(**options)

    def immediate_jobs(self, *, on_commit: bool = False) -> AbstractContextManager[ManualExecutor]:
        """Run jobs enqueued in the block immediately; see :func:`~jobexec.testing.immediate`."""
        return self.job_executor.immediate(on_commit=on_commit)

    def control_jobs_clock(self, start: datetime | None = None) -> ControlledClock:
        """Stop jobexec's time until the end of the test; returns the clock that moves it."""
        clock = controlled_clock(start)
        clock.__enter__()
        self.addCleanup(clock.__exit__, None, None, None)
        return clock

    def assert_outcomes(self, results: Iterable[JobResult], expected: Iterable[str]) -> None:
        """Fail unless the runs had these outcomes, in order."""
        found = list(results)
        told = "\n".join(str(each) for each in found)
        self.assertEqual([each.outcome for each in found], list(expected), told)


class JobsTestCase(JobTestMixin, TestCase):
    """Each test runs in a transaction that is rolled back."""


class JobsTransactionTestCase(JobTestMixin, TransactionTestCase):
    """Each test commits, as production does; the tables are emptied afterwards."""
