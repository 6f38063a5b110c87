"""Tasks among jobs, and what their results say when dead letters are to be tried again."""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from jobexec.models import AbstractJob, ResultStatus, TaskResult


def is_task(row: AbstractJob) -> bool:
    """Whether the job came through django.tasks."""
    return row.task_backend != ""


def mark_ready(using: str, ids: Collection[UUID]) -> None:
    """The tasks among these jobs, which were dead letters, are not over; what they came to so far is kept."""
    if ids:
        TaskResult.objects.using(using).filter(pk__in=ids).update(status=ResultStatus.READY, end_time=None)
