"""What a running job knows about its run."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from jobexec import clock
from jobexec.exceptions import JobTimeout, LockLost

if TYPE_CHECKING:
    from jobexec.models import Job
    from jobexec.operations.values.acquired_job import AcquiredJob


class Host(Protocol):
    """The executor, as far as a job may look at it."""

    @property
    def shutting_down(self) -> bool: ...

    def owns(self, lock_owner: str, using: str) -> bool: ...


class JobContext:
    """Given to handlers whose first parameter is called ``context``.

    ``id`` is the job's id, ``attempt`` counts from 1, ``deadline`` is when the job's timeout ends (None without one).
    ``soft_timeout`` becomes True when 80 per cent of the timeout are over, ``timed_out`` when all of it is: then the
    run has failed already, and nothing that the handler still does counts.
    """

    #: Whether a thread is kept by the handler until it ends.
    holds_thread = True

    def __init__(self, work: AcquiredJob, host: Host, started_at: datetime | None = None) -> None:
        self.work = work
        self._host = host
        self.started_at = started_at or clock.now(work.using)
        self.timeout: timedelta | None = work.timeout
        self.soft_timeout = False
        self.timed_out = False
        self.saw_cancellation = False
        self._progress: tuple[int, int | None] | None = None
        self._interrupt: Callable[[], object] | None = None

    @property
    def id(self) -> UUID:
        return self.work.id

    @property
    def using(self) -> str:
        """The database alias of the engine that the job belongs to."""
        return self.work.using

    @property
    def attempt(self) -> int:
        return self.work.attempts + 1

    @property
    def deadline(self) -> datetime | None:
        return None if self.timeout is None else self.started_at + self.timeout

    @cached_property
    def job(self) -> Job:
        """The job's row, loaded when first asked for."""
        return self.work.load()

    @cached_property
    def scheduled_for(self) -> datetime | None:
        """The time for which a recurring schedule has made the job; None for any other job.

        The same in each attempt. Asks the database when it is first looked at, as :attr:`job` does.
        """
        from jobexec.operations.schedules.manage import scheduled_for  # it needs the models, which load later

        return scheduled_for(self.work.using, self.work.id)

    @property
    def shutting_down(self) -> bool:
        """The executor drains: a long handler may come to an end early, for example by raising RetryIn(0)."""
        return self._host.shutting_down

    @property
    def cancelled(self) -> bool:
        """Somebody has cancelled the job, a second or two ago at the latest.

        A handler that has seen True here ends as cancelled, whether it returns or raises: the job is removed and not
        tried again. What it has written stays, unless the job is ``atomic``: then it is rolled back.
        """
        self.saw_cancellation = self.work.cancel_requested
        return self.saw_cancellation

    def progress(self, done: int, total: int | None = None) -> None:
        """Say that ``done`` of ``total`` units of the work are done; the admin shows it while the job runs.

        Costs next to nothing: only the latest word is written, once a second and by another thread, so it is seen even
        while an atomic job's transaction is open. Raises ValueError for anything but whole numbers from 0 on.
        """
        for name, value in (("done", done), ("total", 0 if total is None else total)):
            if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**63:
                raise ValueError(f"progress: expected a whole number of at least 0 as {name}, got {value!r}.")
        self._progress = (done, total)

    def take_progress(self) -> tuple[int, int | None] | None:
        """What was said since this was last asked."""
        progress, self._progress = self._progress, None
        return progress

    def check_lease(self) -> None:
        """Raise LockLost if this node no longer holds the job: its lease has run out, so another may run it too.

        For handlers with side effects outside the database, before each of them. Asks no database. Raises JobTimeout
        if the job's timeout is over, which has the same consequence.
        """
        if self.timed_out:
            raise JobTimeout(f"The timeout of {self.timeout} has expired.")
        if not self._host.owns(self.work.lock_owner, self.work.using):
            raise LockLost()

    def on_interrupt(self, interrupt: Callable[[], object] | None) -> None:
        """What stops the handler from another thread; an async one can be stopped."""
        self._interrupt = interrupt
        if self.timed_out:  # before there was anything to interrupt
            self.interrupt()

    def interrupt(self) -> None:
        """Stop the handler if that is possible."""
        interrupt = self._interrupt
        if interrupt is not None:
            with suppress(RuntimeError):  # its loop has just been closed
                interrupt()

    @cached_property
    def logger(self) -> logging.LoggerAdapter[logging.Logger]:
        """The logger ``jobexec.job``; its records carry ``job_id``, ``handler_type``, ``attempt`` and what else all
        records about a job carry."""
        from jobexec.operations.values.log_fields import log_fields  # it needs the models, which load later

        return logging.LoggerAdapter(logging.getLogger("jobexec.job"), log_fields(self.work))
