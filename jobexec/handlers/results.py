"""The results of jobs that keep theirs, as ``get_result`` returns them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, Literal, TypeVar, cast
from uuid import UUID

from asgiref.sync import sync_to_async
from django.db import router

from jobexec.exceptions import ResultDoesNotExist

R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptResult(Generic[R]):
    """The state and the result of a job at the moment of the query. Its attributes have the names of django.tasks.

    ``status`` is "READY" (the job waits for a thread, a time, a retry or its activation), "RUNNING", "FAILED" (it is a
    dead letter, or was cancelled or deleted) or "SUCCESSFUL". ``errors`` holds the path of the exception's class and
    the traceback of each failed attempt. ``worker_ids`` holds the node of each attempt.
    """

    id: UUID
    handler_type: str
    status: Literal["READY", "RUNNING", "FAILED", "SUCCESSFUL"]
    enqueued_at: datetime | None
    started_at: datetime | None
    last_attempted_at: datetime | None
    finished_at: datetime | None
    errors: list[dict[str, str]] = field(default_factory=list)
    worker_ids: list[str] = field(default_factory=list)
    _value: R | None = field(default=None, repr=False)

    @property
    def is_finished(self) -> bool:
        """Whether the job is over; a dead letter is over until an operator requeues it."""
        return self.status in ("FAILED", "SUCCESSFUL")

    @property
    def attempts(self) -> int:
        return len(self.worker_ids)

    @property
    def return_value(self) -> R:
        """The function's return value, after a round trip through JSON. Raises ValueError if it has not succeeded."""
        if self.status == "SUCCESSFUL":
            return cast(R, self._value)
        problem = "has failed" if self.is_finished else "has not finished yet"
        raise ValueError(f"The job {self.id} of {self.handler_type} {problem}.")


def get_result(result_id: UUID | str, *, using: str | None = None) -> KeptResult[Any]:
    """The state and the result of any job that keeps its result, by the id of the job. It may be an external job.

    ``using`` is the database. Raises :class:`~jobexec.exceptions.ResultDoesNotExist`.
    """
    from jobexec.models import TaskResult  # models load later than functions are decorated

    return find(result_id, using or router.db_for_read(TaskResult))


async def aget_result(result_id: UUID | str, *, using: str | None = None) -> KeptResult[Any]:
    """:func:`get_result` for async callers."""
    return await sync_to_async(get_result, thread_sensitive=True)(result_id, using=using)


def find(result_id: UUID | str, using: str, handler_types: Collection[str] = ()) -> KeptResult[Any]:
    """The result of a job of one of these handlers, or of any. Raises ResultDoesNotExist."""
    from jobexec.operations.tasks.results import find_task_result

    sight = find_task_result(result_id, using)
    if sight is None:
        raise ResultDoesNotExist(f"{result_id}: {ResultDoesNotExist.default_message()}")
    if handler_types and sight.handler_type not in handler_types:
        raise ResultDoesNotExist(f"{result_id}: expected a job of {min(handler_types)}, got {sight.handler_type}.")
    return KeptResult(
        id=sight.id,
        handler_type=sight.handler_type,
        status=cast(Any, sight.status),
        enqueued_at=sight.enqueued_at,
        started_at=sight.started_at,
        last_attempted_at=sight.last_attempted_at,
        finished_at=sight.finished_at,
        errors=sight.errors,
        worker_ids=sight.worker_ids,
        _value=sight.return_value,
    )
