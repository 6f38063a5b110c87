"""Assertions about enqueued jobs, with messages that show what is enqueued instead."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from jobexec.models import HANDLER_TABLES

from .enqueued import EnqueuedJob
from .matching import Expectation, shown
from .targets import Target
from .waiting import waiting_for_commit

if TYPE_CHECKING:
    from .captured import CapturedJobs

#: How many jobs are shown.
_FEW = 5


def enqueued_jobs(using: str = "default", target: Target | None = None) -> list[EnqueuedJob]:
    """The jobs that wait (also for a time or for a commit) or run, in the order in which they were enqueued."""
    tables = (table for table in HANDLER_TABLES if not table.dead)
    rows = [row for table in tables for row in table._base_manager.using(using).all()]
    jobs = [EnqueuedJob.of(using, row) for row in sorted(rows, key=lambda row: row.pk.int)]
    jobs += waiting_for_commit(using)
    if target is None:
        return jobs
    name = Expectation.of(target, None, None, None, None, {}).handler
    return [job for job in jobs if job.handler == name]


def assert_enqueued(
    target: Target,
    *,
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    count: int | None = None,
    at: datetime | None = None,
    delay: timedelta | float | None = None,
    using: str = "default",
    **columns: Any,
) -> list[EnqueuedJob]:
    """Fail unless a job like this waits in the database ``using``; returns the matching jobs.

    ``target`` is the function of a job, a task, or the name of a handler. Only given values are compared: of ``args``
    and ``kwargs`` (whichever of them the job was called with) and of the columns (``priority=5``,
    ``process_instance_id="order 7"``). ``at`` or ``delay`` (timedelta or seconds) are when it is due, to the second;
    ``count`` is the exact number of jobs. Raises AssertionError, which shows the nearest jobs and their differences.

    Jobs that have run are gone from the database: for those, use :func:`~jobexec.testing.captured_jobs`.
    """
    __tracebackhide__ = True
    expected = Expectation.of(target, args, kwargs, at, delay, columns)
    return check_enqueued(expected, enqueued_jobs(using), count, f"on {using!r}")


def refute_enqueued(
    target: Target,
    *,
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    at: datetime | None = None,
    delay: timedelta | float | None = None,
    using: str = "default",
    **columns: Any,
) -> None:
    """Fail if a job like this waits in the database ``using``; see :func:`assert_enqueued`."""
    __tracebackhide__ = True
    expected = Expectation.of(target, args, kwargs, at, delay, columns)
    check_not_enqueued(expected, enqueued_jobs(using), f"on {using!r}")


def check_enqueued(
    expected: Expectation, jobs: Sequence[EnqueuedJob], count: int | None, where: str
) -> list[EnqueuedJob]:
    """The jobs that match; raises AssertionError if there are none, or not ``count``."""
    __tracebackhide__ = True
    found = [job for job in jobs if job.handler == expected.handler and not expected.differences(job)]
    if count is None and found:
        return found
    if count is not None and len(found) == count:
        return found
    wanted = "a job" if count is None else f"{count} jobs" if count != 1 else "1 job"
    lines = [f"Expected {wanted} {where}, found {len(found) or 'none'}:", f"    {expected}"]
    lines += [f"  = {shown(job)}" for job in found[:_FEW]]
    raise AssertionError("\n".join([*lines, *_others(expected, jobs)]))


def check_not_enqueued(expected: Expectation, jobs: Sequence[EnqueuedJob], where: str) -> None:
    """Raise AssertionError if one of the jobs matches."""
    __tracebackhide__ = True
    found = [job for job in jobs if job.handler == expected.handler and not expected.differences(job)]
    if found:
        more = [f"    and {len(found) - _FEW} more"] if len(found) > _FEW else []
        lines = [f"Expected no job {where} like", f"    {expected}", f"but found {len(found)}:"]
        raise AssertionError("\n".join([*lines, *(f"  = {shown(job)}" for job in found[:_FEW]), *more]))


def _others(expected: Expectation, jobs: Iterable[EnqueuedJob]) -> list[str]:
    """The nearest jobs of the handler with their differences, and the number of jobs of other handlers."""
    alike = [(expected.differences(job), job) for job in jobs if job.handler == expected.handler]
    alike = sorted((each for each in alike if each[0]), key=lambda each: len(each[0]))
    lines = [f"{len(alike)} other of {expected.handler}, the nearest first:"] if alike else []
    for differences, job in alike[:_FEW]:
        lines += [f"    {shown(job)}", *(f"      ! {difference}" for difference in differences)]
    others = Counter(job.handler for job in jobs if job.handler != expected.handler)
    if others:
        lines.append("Other jobs: " + ", ".join(f"{count} of {name}" for name, count in others.most_common(_FEW)))
    return lines or ["There are no other jobs."]


class Assertions:
    """The assertions for one database."""

    using: str

    def assert_enqueued(self, target: Target, **expected: Any) -> list[EnqueuedJob]:
        """:func:`assert_enqueued` on this database."""
        __tracebackhide__ = True
        return assert_enqueued(target, **{"using": self.using, **expected})

    def refute_enqueued(self, target: Target, **expected: Any) -> None:
        """:func:`refute_enqueued` on this database."""
        __tracebackhide__ = True
        refute_enqueued(target, **{"using": self.using, **expected})

    def enqueued(self, target: Target | None = None) -> list[EnqueuedJob]:
        """The jobs that wait or run on this database; only those of ``target``, if given."""
        return enqueued_jobs(self.using, target)

    def captured_jobs(self, *, execute_on_commit: bool = False) -> AbstractContextManager[CapturedJobs]:
        """:func:`~jobexec.testing.captured_jobs` on this database."""
        from .captured import captured_jobs

        return captured_jobs(self.using, execute_on_commit=execute_on_commit)
