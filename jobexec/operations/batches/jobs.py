"""The batch's own jobs: their handlers' names, and how they are created."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import reduce
from operator import or_
from typing import Any
from uuid import UUID

from django.db.models import Exists, Q

from jobexec.conf import get_settings
from jobexec.models import HANDLER_TABLES, Batch, BatchPart
from jobexec.retry import default_plan

from ..enqueue.create import Pattern, create_job
from ..sql.insert import json_text

SEED, EXECUTION, MONITOR = "jobexec.batch_seed", "jobexec.batch_execution", "jobexec.batch_monitor"

#: An unfinished batch always has one of these: without it, no job creates the next pieces or ends the batch.
DRIVERS = (SEED, MONITOR)


def driven(batch: Batch) -> Q:
    """The condition that the batch has a seed or monitor job; in one statement, as such a job moves and is replaced.

    The executable jobs last: they may contain very many pieces.
    """
    tables = [table for table in reversed(HANDLER_TABLES) if not table.dead]
    own = {"process_instance_id": batch.process_instance_id, "handler_type__in": DRIVERS}
    return reduce(or_, (Q(Exists(table._base_manager.filter(**own))) for table in tables))


def enqueue_own(using: str, batch: Batch, handler: str, *arguments: Any, due_date: datetime | None = None) -> None:
    """Create the seed or monitor job of a batch."""
    configuration = {"args": [str(batch.pk), *arguments], "kwargs": {}}
    create_job(using, **_columns(batch, handler), handler_configuration=configuration, due_date=due_date)


def enqueue_parts(using: str, batch: Batch, pieces: Sequence[Sequence[UUID]], *, matching: bool) -> None:
    """Create an execution job for each list of ids. ``matching``: skip jobs that no longer match the conditions."""
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
        # Their work and its record are one commit.
        "atomic": True,
        # Every node knows these handlers. No tenant: a batch must be able to delete the jobs of a suspended tenant.
        "deployment_id": "",
        "process_instance_id": batch.process_instance_id,
        "batch_id": batch.pk,
    }
