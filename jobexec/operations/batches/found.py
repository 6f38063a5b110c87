"""Find batches by id."""

from __future__ import annotations

from uuid import UUID

from jobexec.exceptions import BatchNotFound
from jobexec.models import Batch

from ..audit import about


def find_batch(id: UUID | str, using: str, *, of_jobs: bool = False) -> Batch:
    """The batch with this id, without its selection. Raises BatchNotFound; ``of_jobs``: also for an operation."""
    try:
        wanted = id if isinstance(id, UUID) else UUID(str(id))
    except ValueError:
        raise BatchNotFound(f"There is no batch {id!r}: expected a UUID.") from None
    batch = Batch.objects.using(using).defer("selection").filter(pk=wanted).first()
    if batch is None or (of_jobs and not batch.of_jobs):
        raise BatchNotFound(f"There is no batch {'of jobs ' if of_jobs else ''}{wanted} in {using!r}.")
    about("batch", batch.pk, batch.tenant_id or None)
    return batch
