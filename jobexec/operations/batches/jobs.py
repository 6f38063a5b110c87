"""The jobs of a batch: what they are called, and how they are made."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Exists, Q

from jobexec.conf import get_settings
from jobexec.models import Batch, BatchPart, Job, SuspendedJob, TimerJob
from jobexec.retry import default_plan

from ..enqueue.create import Pattern, create_job
from ..sql.insert import json_text

SEED, EXECUTION, MONITOR = "jobexec.batch_seed", "jobexec.batch_execution", "jobexec.batch_monitor"

#: Of these a batch that is not over has always one: without it nothing makes the next pieces, or sees to the end.
DRIVERS = (SEED, MONITOR)


def driven(batch: Batch) -> Q:
    """The condition that the batch has a job that carries it on; in one statement, as such a job moves and is replaced.

    Timers first: there it nearly always is, and among the executable jobs there may be very many pieces.
    """
    tables = (TimerJob, SuspendedJob, Job)
    own = {"process_instance_id": batch.process_instance_id, "handler_type__in": DRIVERS}
    first, second, third = (Q(Exists(table._base_manager.filter(**own))) for table in tables)
    return first | second | third


def enqueue_own(using: str, batch: Batch, handler: str, *arguments: Any, due_date: datetime | None = None) -> None:
    """Make the seed or the monitor job of a batch."""
    configuration = {"args": [str(batch.pk), *arguments], "kwargs": {}}
    create_job(using, **_columns(batch, handler), handler_configuration=configuration, due_date=due_date)


def enqueue_parts(using: str, batch: Batch, pieces: Sequence[Sequence[UUID]], *, matching: bool) -> None:
    """Make an execution job for each of these lists of ids. ``matching``: what no longer matches is left alone."""
    texts = [json_text({"args": [str(batch.pk), [id.hex for id in piece], matching], "kwargs": {}}) for piece in pieces]
    made = Pattern(using, _columns(batch, EXECUTION)).create_many(texts)
    parts = zip(made.ids, pieces, strict=True)
    BatchPart.objects.using(using).bulk_create(
        [BatchPart(batch_id=batch.pk, job_id=id, size=len(piece)) for id, piece in parts]
    )


def _columns(batch: Batch, handler: str) -> dict[str, Any]:
    settings = get_settings()
    return {
        "handler_type": handler,
        "category": settings.batch_category or settings.categories[0],
        "priority": settings.batch_priority,
        "retries": default_plan().attempts,
        "exclusive": False,
        # What they do and that they have done it is one commit.
        "atomic": True,
        # Every node knows these handlers. And no tenant: who suspends one must still be able to delete its jobs.
        "deployment_id": "",
        "process_instance_id": batch.process_instance_id,
        "batch_id": batch.pk,
    }
