"""The interface to the handlers, a higher layer, which check and create the jobs of schedules."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from jobexec.exceptions import HandlerNotFound


class ScheduledJobs(Protocol):
    """The functions that this process's handlers provide for schedules (:mod:`jobexec.handlers.schedules`)."""

    def names(self) -> Collection[str]:
        """All names of all handlers that this process knows."""
        ...

    def check(self, handler_type: str, args: Sequence[Any], kwargs: Mapping[str, Any], options: Any) -> None:
        """Raise HandlerNotFound, or InvalidSchedule for arguments that do not match or unknown options."""
        ...

    def encrypts(self, handler_type: str, options: Any) -> bool:
        """Whether its jobs are encrypted."""
        ...

    def sensitive_names(self, handler_type: str) -> Collection[str]:
        """The names of its arguments that it declares sensitive; none if this process does not know it."""
        ...

    def enqueue(
        self, using: str, handler_type: str, configuration: Mapping[str, Any], options: Any, due_date: datetime
    ) -> Any:
        """Insert a job, due since ``due_date``, in the current transaction; return the row, or the row of the job that
        holds its unique key."""
        ...


class _Nobody:
    def names(self) -> Collection[str]:
        return ()

    def check(self, handler_type: str, args: Sequence[Any], kwargs: Mapping[str, Any], options: Any) -> None:
        raise HandlerNotFound(f"No handler {handler_type!r} is registered in this process.")

    def encrypts(self, handler_type: str, options: Any) -> bool:
        return False

    def sensitive_names(self, handler_type: str) -> Collection[str]:
        return ()

    def enqueue(
        self, using: str, handler_type: str, configuration: Mapping[str, Any], options: Any, due_date: datetime
    ) -> Any:
        raise HandlerNotFound(f"No handler {handler_type!r} is registered in this process.")


_jobs: ScheduledJobs = _Nobody()


def use(jobs: ScheduledJobs) -> None:
    """Set the handlers; their package calls this when it is imported."""
    global _jobs
    _jobs = jobs


def scheduled_jobs() -> ScheduledJobs:
    return _jobs
