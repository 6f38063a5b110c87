"""An executor without threads: runs jobs on demand."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from asgiref.sync import sync_to_async

from jobexec.operations.values.acquired_job import AcquiredJob, batches

from .assertions import Assertions
from .at_once import immediate
from .faults import NodeKilled
from .results import JobResult, JobsDoNotEnd
from .rounds import Rounds
from .steps import ends_the_test, is_serious, noted

T = TypeVar("T")
_PAGE = 100


class ManualExecutor(Rounds, Assertions):
    """Runs jobs in the calling thread and on its connection, on demand.

    Acquisition, handlers, retries, dead letters, exclusive jobs, suspensions, and the limits and rates of resources
    work as in production, but without threads, leases and waiting, and without circuit breakers that open by
    themselves. Works inside the transaction of a test and without one. Serves the given categories, or all categories
    in the settings.

    An error of a handler is raised again as soon as it is recorded, and jobs that have not started are released, so
    that a test of what a job *does* fails where the job fails. With ``reraise=False``, here or in a call, only the
    results contain the error, for tests of what happens after a failure. JobCancelled, RetryIn and RetryAt, with which
    a handler controls its job, and errors injected by :mod:`~jobexec.testing.faults` are never raised again.
    """

    def __init__(
        self,
        using: str = "default",
        *,
        node: str = "manual executor",
        categories: Iterable[str] | None = None,
        reraise: bool = True,
        max_jobs: int = 1000,
    ) -> None:
        super().__init__(using, node, categories)
        self.reraise, self.max_jobs = reraise, max_jobs

    def another(self) -> ManualExecutor:
        """Another executor like this one, as if it were a second node; also for another thread."""
        more: dict[str, Any] = {"reraise": self.reraise, "max_jobs": self.max_jobs}
        return ManualExecutor(self.using, node=self.node, categories=self._categories, **more)

    # Jobs.

    def run_next(self, *, reraise: bool | None = None) -> JobResult | None:
        """Run the next due job; None if none is due."""
        return next(iter(self.run_due(1, reraise=reraise)), None)

    def run_due(self, limit: int | None = None, *, reraise: bool | None = None) -> list[JobResult]:
        """Run the jobs that are due now, including due timers, in order, at most ``limit``.

        Jobs that they enqueue wait for the next call.
        """
        self.run_timers()
        jobs: list[AcquiredJob] = []
        while limit is None or len(jobs) < limit:
            page = self.acquire(_PAGE if limit is None else limit - len(jobs))
            if not page:
                break
            jobs += page
        results: list[JobResult] = []
        self._run(jobs, reraise, results)
        return results

    def run_until_empty(
        self, *, max_jobs: int | None = None, reraise: bool | None = None, advance: bool = False
    ) -> list[JobResult]:
        """Run due jobs, and the jobs that they enqueue, until none is due; recorded history, too.

        Jobs due later stay, including retries, and so do jobs that wait for the rate of their resource. With
        ``advance`` the controlled clock moves on to them, date by date.
        Raises JobsDoNotEnd after ``max_jobs`` jobs (default: that of the executor, 1000).
        """
        most = self.max_jobs if max_jobs is None else max_jobs
        results: list[JobResult] = []
        while True:
            self.run_timers()
            jobs = self.acquire(min(_PAGE, most - len(results)) or 1)
            if jobs and len(results) >= most:
                self.release(jobs)
                raise JobsDoNotEnd(most, results)
            if not jobs and not (self.run_history(reraise=reraise) or (advance and self._advance())):
                return results
            self._run(jobs, reraise, results)

    def tick(self, *, reraise: bool | None = None) -> list[JobResult]:
        """Run one round of everything that a node does, except for finding dead nodes (:meth:`recover`).

        Suspensions that begin or end, due schedules and timers, recorded history, and one page of jobs.
        """
        self.run_suspensions()
        self.run_schedules()
        self.run_timers()
        self.run_history(reraise=reraise)
        results: list[JobResult] = []
        self._run(self.acquire(_PAGE), reraise, results)
        return results

    def _run(self, jobs: list[AcquiredJob], reraise: bool | None, results: list[JobResult]) -> None:
        """Run acquired jobs; those not started when this ends early are released, unless the node has died."""
        queue = batches(jobs)
        try:
            while queue:
                left = queue[0]
                work = left.pop(0)
                ran = self.run(work)
                result = self.settle(ran, left)
                queue[0] = self.host.siblings
                if not queue[0]:
                    queue.pop(0)
                results.append(result)
                if ends_the_test(ran) or (self._raises(reraise) and is_serious(ran, result)):
                    raise noted(result)
        except NodeKilled:
            queue = []
            raise
        finally:
            self.release([work for batch in queue for work in batch])

    def run_acquired(self, jobs: Iterable[AcquiredJob | None], results: list[JobResult]) -> None:
        """Run acquired jobs in their order, siblings together, and append their results to ``results``."""
        self._run([job for job in jobs if job is not None], None, results)

    # For async tests.

    async def arun_next(self, *, reraise: bool | None = None) -> JobResult | None:
        """:meth:`run_next` for async callers."""
        return await _in_thread(lambda: self.run_next(reraise=reraise))

    async def arun_due(self, limit: int | None = None, *, reraise: bool | None = None) -> list[JobResult]:
        """:meth:`run_due` for async callers."""
        return await _in_thread(lambda: self.run_due(limit, reraise=reraise))

    async def arun_until_empty(
        self, *, max_jobs: int | None = None, reraise: bool | None = None, advance: bool = False
    ) -> list[JobResult]:
        """:meth:`run_until_empty` for async callers."""
        return await _in_thread(lambda: self.run_until_empty(max_jobs=max_jobs, reraise=reraise, advance=advance))

    async def atick(self, *, reraise: bool | None = None) -> list[JobResult]:
        """:meth:`tick` for async callers."""
        return await _in_thread(lambda: self.tick(reraise=reraise))

    def immediate(self, *, on_commit: bool = False) -> AbstractContextManager[ManualExecutor]:
        """Run jobs enqueued on this database immediately; see :func:`~jobexec.testing.immediate`."""
        return immediate(self, on_commit=on_commit)


async def _in_thread(verb: Callable[[], T]) -> T:
    return await sync_to_async(verb, thread_sensitive=True)()
