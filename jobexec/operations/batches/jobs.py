"""The batch's own jobs: their handlers' names, and how the execution jobs are created."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from jobexec.models import BATCH_HANDLERS, Batch, BatchPart

from ..enqueue.batch_drivers import DRIVERS, MONITOR, SEED, driven, enqueue_own, own_columns
from ..enqueue.create import Pattern
from ..sql.insert import json_text

__all__ = ["DRIVERS", "EXECUTION", "MONITOR", "SEED", "driven", "enqueue_own", "enqueue_parts"]

EXECUTION = BATCH_HANDLERS[1]


def enqueue_parts(using: str, batch: Batch, pieces: Sequence[Sequence[UUID]], *, matching: bool) -> None:
    """Create an execution job for each list of ids. ``matching``: skip jobs that no longer match the conditions."""
    texts = [json_text({"args": [str(batch.pk), [id.hex for id in piece], matching], "kwargs": {}}) for piece in pieces]
    made = Pattern(using, own_columns(batch, EXECUTION)).create_many(texts)
    parts = zip(made.ids, pieces, strict=True)
    BatchPart.objects.using(using).bulk_create(
        [BatchPart(batch_id=batch.pk, job_id=id, size=len(piece)) for id, piece in parts]
    )
