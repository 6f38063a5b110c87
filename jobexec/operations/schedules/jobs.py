"""The seam to the handlers: how the job of a schedule is made and checked is theirs to say, and they stand above."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from jobexec.exceptions import HandlerNotFound


class ScheduledJobs(Protocol):
    """What the handlers of this process can do for schedules (:mod:`jobexec.handlers.schedules`)."""

    def names(self) -> Collection[str]:
        """All handlers that this process knows, by all their names."""
        ...

    def check(self, handler_type: str, args: Sequence[Any], kwargs: Mapping[str, Any], options: Any) -> None:
        """Raise HandlerNotFound, or InvalidSchedule for arguments that do not fit or options that there are not."""
        ...

    def enqueue(
        self, using: str, handler_type: str, configuration: Mapping[str, Any], options: Any, due_date: datetime
    ) -> Any:
        """Insert a job in the current transaction, due since ``due_date``; the row, or that of the job that has its
        unique key."""
        ...


class _Nobody:
    def names(self) -> Collection[str]:
        return ()

    def check(self, handler_type: str, args: Sequence[Any], kwargs: Mapping[str, Any], options: Any) -> None:
        raise HandlerNotFound(f"No handler {handler_type!r} is registered in this process.")

    def enqueue(
        self, using: str, handler_type: str, configuration: Mapping[str, Any], options: Any, due_date: datetime
    ) -> Any:
        raise HandlerNotFound(f"No handler {handler_type!r} is registered in this process.")


_jobs: ScheduledJobs = _Nobody()


def use(jobs: ScheduledJobs) -> None:
    """Let these be the handlers; said by their package when it is imported."""
    global _jobs
    _jobs = jobs


def scheduled_jobs() -> ScheduledJobs:
    """The handlers of this process."""
    return _jobs
