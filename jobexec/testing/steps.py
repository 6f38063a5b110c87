"""The steps of an executor, without its threads."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from django.db.transaction import TransactionManagementError

from jobexec import clock, signals, tracing
from jobexec.conf import get_settings
from jobexec.exceptions import RetryAt, RetryIn
from jobexec.executor.run.execution import caught, check_may_begin, ended, hand_on, run_handler
from jobexec.executor.run.outcomes import Outcome
from jobexec.handlers.registry import get_handler
from jobexec.identifiers import uuid7
from jobexec.models import ExecutorNode, Job
from jobexec.operations.acquire.acquire import acquire_jobs
from jobexec.operations.manage.cancel import cancelled_among
from jobexec.operations.nodes.deployments import all_deployments
from jobexec.operations.values.acquired_job import AcquiredJob, ServedJobs
from jobexec.operations.values.category_turns import Turns
from jobexec.operations.values.failure import Failure

from . import faults
from .clocks import follow_the_process
from .commits import Enclosure, own_transaction
from .host import ManualHost
from .results import JobResult, Ran

_TRIES = 10


class Steps:
    """The steps of an executor one by one, in the caller's thread and on its connection.

    ``acquire()`` locks jobs, ``run()`` calls the handler of one, and ``settle()`` writes its outcome, with the
    operations of the executor and in the transaction of the test if there is one (Camunda: ControllableJobExecutor).
    """

    def __init__(self, using: str, node: str, categories: Iterable[str] | None) -> None:
        settings = get_settings()
        settings.engine(using)
        self.using, self.node = using, node
        self._categories = settings.categories if categories is None else tuple(categories)
        unknown = [name for name in self._categories if name not in settings.categories]
        if unknown:
            known = ", ".join(settings.categories)
            raise ValueError(f"categories: expected some of {known} (setting CATEGORIES), got {unknown[0]!r}.")
        self._turns = Turns(settings.category_weights)
        self._boot = uuid7()
        self.host = ManualHost(using, node, lambda: self.owner)
        follow_the_process(using)

    @property
    def owner(self) -> str:
        """The lock owner of the jobs that it has acquired."""
        return f"{self.node}:{self._boot}"

    def acquire(self, limit: int = 100) -> list[AcquiredJob]:
        """Lock up to ``limit`` due jobs as an executor does, and return them in order.

        Raises OperationalError if the database is unavailable; an executor would wait and try again.
        """
        self.host.settle_rest()
        jobs: list[AcquiredJob] = []
        for _ in range(_TRIES):  # a page may consist of jobs that are only moved out of the way
            with own_transaction(self.using):
                found, jobs = self._page(limit)
            if jobs or not found:
                break
        if jobs and signals.job_acquired.has_listeners(Job):
            signals.job_acquired.send_robust(sender=Job, using=self.using, jobs=jobs, node=self.owner)
        return jobs

    def _page(self, limit: int) -> tuple[int, list[AcquiredJob]]:
        engine = get_settings().engine(self.using)
        acquisition = acquire_jobs(
            self.using,
            self.owner,
            limit,
            self._scope(),
            lock_time=engine.lock_time,
            strategy=engine.acquisition,
            force_after=engine.global_lock_force_acquire_after,
        )
        return acquisition.found, acquisition.jobs

    def _scope(self) -> ServedJobs:
        return ServedJobs(
            self._categories,
            tuple(all_deployments(self._categories, using=self.using)),
            category_order=get_settings().category_order,
            turns=self._turns,
            wide=tracing.enabled(),
        )

    def run(self, work: AcquiredJob) -> Ran:
        """Run an acquired job; its outcome is not written yet, unless the job is ``atomic``. Raises only NodeKilled."""
        ran = Ran(work, Outcome(work))
        started_at, start = clock.now(self.using), clock.monotonic()
        enclosure = Enclosure()
        try:
            self._call(ran, started_at)
        except BaseException as error:
            self._end(ran, enclosure)
            if isinstance(error, faults.NodeKilled):
                self._die()
                raise
            ran.error = None if ran.outcome.counted else error
            began = caught(ran.outcome, error, ran.handler)
        else:
            began = True
            self._end(ran, enclosure)
        if work.atomic and not ran.outcome.counted:
            faults.repeat(work)
        if began:
            ended(ran.outcome, self.host, started_at, start)
        ran.injected = any(ran.error is each for each in self.host.injected)
        self.host.injected.clear()
        return ran

    def _call(self, ran: Ran, started_at: Any) -> None:
        work = ran.work
        if work.cancel_requested or cancelled_among(self.using, [work.id]):
            work.cancel_requested = True
        check_may_begin(work, started_at)
        ran.handler = get_handler(work.handler_type)
        ran.value = run_handler(ran.handler, work, self.host, ran.outcome, started_at)

    def _end(self, ran: Ran, enclosure: Enclosure) -> None:
        """What follows a handler inside the transaction of a test: its commits, and the hooks on them."""
        problem = enclosure.close()
        try:
            enclosure.run_hooks()
        except Exception as error:
            caught(ran.outcome, error, ran.handler)
            ran.error = ran.error or (None if ran.outcome.counted else error)
        outcome = ran.outcome
        if problem and not outcome.counted and outcome.failure is None:
            outcome.run, outcome.failure = None, Failure(problem, plan=ran.handler.retry_plan if ran.handler else None)
            ran.error = TransactionManagementError(problem)

    def settle(self, ran: Ran, siblings: list[AcquiredJob] | None = None) -> JobResult:
        """Write the outcome of a run: done, retry or dead letter. A job that could not start is released.

        ``siblings`` are exclusive jobs of the same process instance that this executor holds and runs next; they are
        released if the outcome does not count.
        """
        outcome = ran.outcome
        self.host.siblings = []
        if outcome.run is None:
            self.host.give_back([ran.work, *(siblings or ())])
        else:
            self.host.siblings = hand_on(outcome, siblings or [], self.host) or self.host.siblings
        return ran.result(unsettled=any(outcome is each for each in self.host.unsettled))

    def release(self, jobs: Iterable[AcquiredJob]) -> None:
        """Release acquired jobs that have not started, without costing a retry."""
        self.host.release(list(jobs))

    def _die(self) -> None:
        """Leave everything locked, by a node whose lease has expired; from now on this is another node."""
        now = clock.now(self.using)
        ended_at = now - timedelta(seconds=1)
        with own_transaction(self.using):
            ExecutorNode.objects.using(self.using).create(
                id=self._boot,
                name=self.node,
                lock_owner=self.owner,
                hostname=socket.gethostname(),
                pid=os.getpid(),
                start_time=ended_at,
                heartbeat_time=ended_at,
                lease_expiration_time=ended_at,
            )
        self._boot = uuid7()
        self.host.unsettled.clear()


def ends_the_test(ran: Ran) -> bool:
    """Whether the error ends the test itself, whatever the job does: Ctrl-C, pytest.fail(), a time limit."""
    harmless = Exception | SystemExit | GeneratorExit | asyncio.CancelledError
    return ran.error is not None and not ran.injected and not isinstance(ran.error, harmless)


def is_serious(ran: Ran, result: JobResult) -> bool:
    """Whether to raise a failure in the test at once, and not only report it in the result."""
    if ran.injected or ran.outcome.handled or isinstance(result.exception, RetryIn | RetryAt):
        return False
    return result.outcome in ("failed", "timeout")


def noted(result: JobResult) -> BaseException:
    """The error of a job, with a note that names the job."""
    error = result.exception
    assert error is not None, result
    became = f"; it is a {result.became.__name__} now" if result.became else ""
    note = f"Raised by job {result.id} of {result.handler}, attempt {result.attempt}{became}."
    if note not in getattr(error, "__notes__", ()):
        error.add_note(note)
    return error
