"""Runs jobs as soon as they are enqueued."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING
from uuid import UUID

from django.db import connections

from jobexec.models import BlockedJob, Job
from jobexec.operations.notify.observers import unwatch, watch
from jobexec.operations.values.acquired_job import AcquiredJob
from jobexec.operations.values.inserted_rows import NewJob

from .results import JobResult, JobsDoNotEnd

if TYPE_CHECKING:
    from .executor import ManualExecutor

_PAGE = 500


class _Thread(threading.local):
    """The jobs that a thread has to run, and the executor that runs them."""

    def __init__(self, executor: ManualExecutor, owner: int) -> None:
        self.queue: deque[UUID] = deque()
        self.runs = False
        # An executor is for one thread.
        self.executor = executor if threading.get_ident() == owner else executor.another()


class Immediate:
    """Runs jobs in the threads that enqueue them, one after another: jobs enqueued by a job come after it.

    Jobs that wait for a message are not among them.
    """

    def __init__(self, executor: ManualExecutor, on_commit: bool) -> None:
        self._using, self._on_commit = executor.using, on_commit
        self._thread = _Thread(executor, threading.get_ident())

    def __call__(self, using: str, jobs: Sequence[NewJob]) -> None:
        """Run the inserted jobs that are due; the others wait, as usual."""
        due = [job.pk for job in jobs if isinstance(job, Job | BlockedJob) and job.waits_for is None]
        if using != self._using or not due:
            return
        self._thread.queue.extend(due)
        if self._on_commit:
            connections[using].on_commit(self._drain)
        else:
            self._drain()

    def _drain(self) -> None:
        thread = self._thread
        if thread.runs:
            return  # a running job has enqueued them: the call that runs it will also run these
        thread.runs, executor = True, thread.executor
        results: list[JobResult] = []
        try:
            while thread.queue:
                if len(results) >= executor.max_jobs:
                    raise JobsDoNotEnd(executor.max_jobs, results)
                executor.run_promotions()
                executor.run_acquired([chosen(executor, thread.queue.popleft())], results)
        finally:
            thread.runs = False
            thread.queue.clear()


@contextmanager
def immediate(executor: ManualExecutor | str = "default", *, on_commit: bool = False) -> Iterator[ManualExecutor]:
    """Within the block, enqueueing a job runs it before ``enqueue`` returns: inserted, acquired, run and settled.

    ``on_commit``: run it at the commit of the transaction instead, as in production; in a TestCase
    ``captureOnCommitCallbacks(execute=True)`` does that. An error of a job is raised in the code that enqueued it; its
    retry waits in the database, and so do jobs whose resource lets no more run, and jobs that are due later, such as
    the monitor of a batch: run the ``executor`` to end the batch. Jobs enqueued by a job run after it. Jobs that were
    enqueued before the block are not run. ``executor`` is a manual executor, or the database alias for a new one.
    """
    if isinstance(executor, str):
        from .executor import ManualExecutor

        executor = ManualExecutor(executor)
    watcher = Immediate(executor, on_commit)
    watch(watcher)
    try:
        yield executor
    finally:
        unwatch(watcher)


def chosen(executor: ManualExecutor, id: UUID) -> AcquiredJob | None:
    """Acquire this job, if it can be acquired; other jobs of its page are released."""
    jobs: list[AcquiredJob] = []
    while page := executor.acquire(_PAGE):
        jobs += page
        if any(job.id == id for job in page):
            break
    executor.release([job for job in jobs if job.id != id])
    return next((job for job in jobs if job.id == id), None)
