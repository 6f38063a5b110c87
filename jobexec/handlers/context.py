"""A running job's view of its run."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar, Token
from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol
from uuid import UUID

from jobexec import clock
from jobexec.exceptions import JobTimeout, LockLost

if TYPE_CHECKING:
    from threading import Event

    from jobexec.models import Job
    from jobexec.operations.values.acquired_job import AcquiredJob
    from jobexec.operations.values.messages import ReceivedMessage

    from .base import RunGroup, SharedEnd
    from .batch import JobBatch

_current: ContextVar[JobContext] = ContextVar("jobexec_current_job")


def current_job() -> JobContext | None:
    """The context of the job that this code runs for; None outside of a job.

    It is also None in threads that a handler starts, unless the handler copies the context
    (``contextvars.copy_context()``).
    """
    return _current.get(None)


class Host(Protocol):
    """The part of the executor's interface that a job uses."""

    @property
    def shutting_down(self) -> bool: ...

    def owns(self, lock_owner: str, using: str) -> bool: ...


class JobContext:
    """Passed to handlers whose first parameter is called ``context``.

    ``id`` is the job's id, ``attempt`` counts from 1, ``deadline`` is when the job's timeout ends (None without one).
    ``soft_timeout`` becomes True after 80 per cent of the timeout, ``timed_out`` at its end. The run has then failed,
    and jobexec ignores what the handler returns or raises.
    """

    #: Whether 80 per cent of the timeout have passed.
    soft_timeout: bool
    #: Whether the timeout has passed. The run has failed then, and what the handler still does is lost.
    timed_out: bool
    #: Whether the handler occupies a thread until it ends.
    holds_thread = True
    #: The runs with which this one shares its transaction; None if it has one of its own.
    group: RunGroup | None = None
    #: Set as soon as its failure by the timeout is committed, or is known to be lost; None before its timeout.
    timeout_settled: Event | None = None

    def __init__(self, work: AcquiredJob, host: Host, started_at: datetime | None = None) -> None:
        self.work = work
        self.host = host
        self.started_at = started_at or clock.now(work.using)
        self.timeout: timedelta | None = work.timeout
        self.soft_timeout = False
        self.timed_out = False
        self.saw_cancellation = False
        #: What is to be written with the end of this run, see :attr:`shares_end`.
        self.shared_end: SharedEnd | None = None
        self._progress: tuple[int, int | None] | None = None
        self._interrupt: Callable[[], object] | None = None
        #: The call of the handler, for the middleware around it.
        self.call: Callable[[], Any]

    def enter(self) -> Token[JobContext]:
        """Make this job the current job of this context (``contextvars``)."""
        return _current.set(self)

    @staticmethod
    def leave(token: Token[JobContext]) -> None:
        """Undo :meth:`enter`, which returned ``token``."""
        _current.reset(token)

    @property
    def id(self) -> UUID:
        return self.work.id

    @property
    def handler_type(self) -> str:
        """The name of the job's handler, as in its row."""
        return self.work.handler_type

    @property
    def tenant_id(self) -> str:
        """The tenant of the job; '' for a job without one. Uses no database."""
        return self.work.tenant_id

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
        """The job's row, loaded at first use."""
        return self.work.load()

    @cached_property
    def scheduled_for(self) -> datetime | None:
        """The time for which a recurring schedule made the job; None for any other job.

        The same in each attempt. Queries the database at first use, as :attr:`job` does.
        """
        from jobexec.operations.schedules.manage import scheduled_for  # it needs the models, which load later

        return scheduled_for(self.work.using, self.work.id)

    @cached_property
    def message(self) -> ReceivedMessage | None:
        """The message for which the job waited (``wait_for``); None if it did not wait, or runs without a message.

        The same in each attempt.
        """
        if self.work.message is None:
            return None
        from jobexec.operations.values.messages import ReceivedMessage  # it needs the models, which load later

        return ReceivedMessage.read(self.work.message)

    @cached_property
    def batch(self) -> JobBatch | None:
        """The batch of which the job is a child, or which has called the job at its end; None for any other job.

        A child may add jobs to its batch. Uses no database.
        """
        from .batch import batch_of_job  # it needs the functions, which need the context

        return batch_of_job(self.work)

    @property
    def shares_end(self) -> bool:
        """Whether the handler may set :attr:`shared_end`.

        Not for an atomic job, and not where jobs run one by one.
        """
        return not self.work.atomic and getattr(self.host, "shares_ends", False)

    @property
    def shutting_down(self) -> bool:
        """Whether the executor is stopping. A long handler may then end early, for example by raising RetryIn(0)."""
        return self.host.shutting_down

    @property
    def cancelled(self) -> bool:
        """Whether the job was cancelled. A cancellation becomes visible here within a second or two.

        After a handler has read True here, its job ends as cancelled, whether the handler returns or raises: the job is
        removed and not retried. Its database changes stay, unless the job is ``atomic``: then they are rolled back.
        """
        self.saw_cancellation = self.work.cancel_requested
        return self.saw_cancellation

    def progress(self, done: int, total: int | None = None) -> None:
        """Report that ``done`` of ``total`` units of work are done. The admin shows it while the job runs.

        Cheap: only the latest report is written, once a second and by another thread, so it is visible even while an
        atomic job's transaction is open. Raises ValueError for anything but whole numbers of at least 0.
        """
        for name, value in (("done", done), ("total", 0 if total is None else total)):
            if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**63:
                raise ValueError(f"progress: expected a whole number of at least 0 as {name}, got {value!r}.")
        self._progress = (done, total)

    def take_progress(self) -> tuple[int, int | None] | None:
        """The latest report since the last call."""
        progress, self._progress = self._progress, None
        return progress

    def check_lease(self) -> None:
        """Raise LockLost if the lease of this node has expired: another node may then run the job, too.

        For handlers with side effects outside the database, before each of them. Uses no database. Raises JobTimeout
        after the job's timeout, which has the same consequence.
        """
        if self.timed_out:
            raise JobTimeout(f"The timeout of {self.timeout} has expired.")
        if not self.host.owns(self.work.lock_owner, self.work.using):
            raise LockLost()

    def on_interrupt(self, interrupt: Callable[[], object] | None) -> None:
        """Set a function that stops the handler from another thread; an async handler can be stopped."""
        self._interrupt = interrupt
        if self.timed_out:  # the timeout came before there was anything to interrupt
            self.interrupt()

    def interrupt(self) -> None:
        """Stop the handler if that is possible."""
        interrupt = self._interrupt
        if interrupt is not None:
            with suppress(RuntimeError):  # its loop has just been closed
                interrupt()

    @cached_property
    def logger(self) -> logging.LoggerAdapter[logging.Logger]:
        """The logger ``jobexec.job``; its records have ``job_id``, ``handler_type``, ``attempt`` and the other
        attributes of all records about a job."""
        from jobexec.operations.values.log_fields import log_fields  # it needs the models, which load later

        return logging.LoggerAdapter(logging.getLogger("jobexec.job"), log_fields(self.work))
