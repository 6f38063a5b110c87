"""Record the results of the pieces of a batch."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any
from uuid import UUID

from django.db.models import F

from jobexec import clock
from jobexec.models import Batch, BatchFailure, BatchPart

from ..sql.errors import storable
from ..targets.for_each import OperationResult

#: The maximum number of BatchFailure rows of a batch; skipped jobs beyond it are only counted. Threads that check it
#: at the same time may each exceed it by a piece.
MAX_FAILURES = 10_000
_REASON_LENGTH = 1000


def record(using: str, batch: Batch, job_id: UUID, result: OperationResult) -> None:
    """Record the result of a piece; ``job_id`` is its execution job."""
    # In this order: first the rows that refer to the batch, then the part. The monitor and a cancellation lock alike.
    if result.skipped:
        BatchFailure.objects.using(using).bulk_create(_failures(using, batch, result))
    changed, skipped = len(result.changed), len(result.skipped)
    part = BatchPart.objects.using(using).filter(job_id=job_id)
    if not part.update(changed=changed, skipped=skipped, end_time=clock.now(using)):
        # The batch was cancelled meanwhile, and its parts are gone.
        add(using, batch.pk, changed, skipped)


def _failures(using: str, batch: Batch, result: OperationResult) -> Iterator[BatchFailure]:
    there = BatchFailure.objects.using(using).filter(batch_id=batch.pk).order_by()[:MAX_FAILURES].count()
    for pk, reason in islice(result.skipped.items(), MAX_FAILURES - there):
        yield BatchFailure(batch_id=batch.pk, job_id=pk, reason=storable(reason)[:_REASON_LENGTH])


def add(using: str, id: UUID, changed: int, skipped: int) -> None:
    """Add to the totals of a batch."""
    totals: dict[str, Any] = {"changed": F("changed") + changed, "skipped": F("skipped") + skipped}
    Batch.objects.using(using).filter(pk=id).update(**totals)
