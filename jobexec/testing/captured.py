"""The jobs that are enqueued in a block, whatever happens to them afterwards."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta
from typing import Any, overload

from django.db import connections
from django.test.testcases import TestCase

from jobexec.operations.notify.observers import unwatch, watch
from jobexec.operations.sql.on_commit import after_commit
from jobexec.operations.values.inserted_rows import NewJob

from .assertions import check_enqueued, check_not_enqueued
from .enqueued import EnqueuedJob
from .matching import Expectation, shown
from .targets import Target, handler_name
from .waiting import waiting_for_commit

logger = logging.getLogger("jobexec.testing")


class _Mark:
    """A hook that stays registered with a transaction unless the jobs inserted with it are rolled back."""

    def __init__(self, connection: Any) -> None:
        self._connection, self._committed = connection, False

    def __call__(self) -> None:
        self._committed = True

    @property
    def stands(self) -> bool:
        waiting = self._connection.run_on_commit
        return self._committed or any(hook is self for _, hook, _ in waiting)


class CapturedJobs(Sequence[EnqueuedJob]):
    """The enqueued jobs, in order, including those that have run, but not those that were rolled back."""

    def __init__(self, using: str | None) -> None:
        self._using = using
        self._jobs: list[tuple[EnqueuedJob, _Mark]] = []
        self._kept: list[EnqueuedJob] | None = None

    def _note(self, using: str, jobs: Sequence[NewJob]) -> None:
        if self._using not in (None, using):
            return
        mark = _Mark(connections[using])
        after_commit(connections[using], mark)
        self._jobs += [(EnqueuedJob.of(using, job), mark) for job in jobs]

    def _close(self) -> None:
        self._kept = self._standing()

    def _standing(self) -> list[EnqueuedJob]:
        return [job for job, mark in self._jobs if mark.stands] if self._kept is None else self._kept

    @property
    def waiting(self) -> list[EnqueuedJob]:
        """The jobs that will be enqueued when a transaction of this thread commits."""
        aliases = [self._using] if self._using is not None else [each.alias for each in connections.all(True)]
        return [job for using in aliases for job in waiting_for_commit(using)]

    @overload
    def __getitem__(self, index: int) -> EnqueuedJob: ...
    @overload
    def __getitem__(self, index: slice) -> list[EnqueuedJob]: ...
    def __getitem__(self, index: int | slice) -> Any:
        return self._standing()[index]

    def __len__(self) -> int:
        return len(self._standing())

    def __repr__(self) -> str:
        return "\n".join(["Captured jobs:", *(f"  {shown(job)}" for job in self)]) if self else "No captured jobs"

    def of(self, target: Target) -> list[EnqueuedJob]:
        """The jobs of one handler."""
        return [job for job in self if job.handler == handler_name(target)]

    def assert_enqueued(
        self,
        target: Target,
        *,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        count: int | None = None,
        at: datetime | None = None,
        delay: timedelta | float | None = None,
        **columns: Any,
    ) -> list[EnqueuedJob]:
        """Fail unless a job like this was enqueued in the block; see :func:`~jobexec.testing.assert_enqueued`."""
        __tracebackhide__ = True
        expected = Expectation.of(target, args, kwargs, at, delay, columns)
        return check_enqueued(expected, self._standing(), count, "among the captured ones")

    def refute_enqueued(
        self,
        target: Target,
        *,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        at: datetime | None = None,
        delay: timedelta | float | None = None,
        **columns: Any,
    ) -> None:
        """Fail if a job like this was enqueued in the block; see :func:`~jobexec.testing.refute_enqueued`."""
        __tracebackhide__ = True
        expected = Expectation.of(target, args, kwargs, at, delay, columns)
        check_not_enqueued(expected, self._standing(), "among the captured ones")


@contextmanager
def captured_jobs(using: str | None = None, *, execute_on_commit: bool = False) -> Iterator[CapturedJobs]:
    """Record the jobs enqueued in the block, on one database or on all, by any thread of this process.

    ``execute_on_commit``: at the end of the block, run the hooks that wait for the commit of a transaction that is
    never committed, that of a TestCase, as its ``captureOnCommitCallbacks(execute=True)`` does; jobs that they enqueue
    are captured, too.
    """
    captured = CapturedJobs(using)
    watch(captured._note)
    try:
        with ExitStack() as stack:
            if execute_on_commit:
                aliases = [using] if using is not None else [each.alias for each in connections.all(True)]
                for alias in aliases:
                    stack.enter_context(TestCase.captureOnCommitCallbacks(using=alias, execute=True))
            yield captured
    finally:
        unwatch(captured._note)
        captured._close()
