"""What a running job knows about its run."""

from __future__ import annotations

import logging
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from jobexec import clock
from jobexec.exceptions import LockLost

if TYPE_CHECKING:
    from jobexec.models import Job
    from jobexec.operations.work import AcquiredJob


class Host(Protocol):
    """The executor, as far as a job may look at it."""

    @property
    def shutting_down(self) -> bool: ...

    def owns(self, lock_owner: str, using: str) -> bool: ...


class JobContext:
    """Given to handlers whose first parameter is called ``context``.

    ``id`` is the job's id, ``attempt`` counts from 1, ``deadline`` is when the job's timeout ends (None without one;
    a handler that takes long looks at it and stops in time).
    """

    def __init__(self, work: AcquiredJob, host: Host) -> None:
        self._work = work
        self._host = host
        self.started_at: datetime = clock.now(work.using)

    @property
    def id(self) -> UUID:
        return self._work.id

    @property
    def attempt(self) -> int:
        return self._work.attempts + 1

    @property
    def deadline(self) -> datetime | None:
        timeout = self._work.timeout
        return None if timeout is None else self.started_at + timeout

    @cached_property
    def job(self) -> Job:
        """The job's row, loaded when first asked for."""
        return self._work.load()

    @property
    def shutting_down(self) -> bool:
        """The executor drains: a long handler may come to an end early, for example by raising RetryIn(0)."""
        return self._host.shutting_down

    def check_lease(self) -> None:
        """Raise LockLost if this node no longer holds the job: its lease has run out, so another may run it too.

        For handlers with side effects outside the database, before each of them. Asks no database.
        """
        if not self._host.owns(self._work.lock_owner, self._work.using):
            raise LockLost()

    @cached_property
    def logger(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger whose records carry ``job_id``, ``handler_type`` and ``attempt``."""
        extra = {"job_id": str(self.id), "handler_type": self._work.handler_type, "attempt": self.attempt}
        return logging.LoggerAdapter(logging.getLogger("jobexec.job"), extra)
