"""How many batches are not over."""

from __future__ import annotations

from typing import NamedTuple

from jobexec.models import Batch, BatchState
from jobexec.models.batch import JOBS

from ..rows.tallies import states

_MOST = 500  # batches of jobs whose figures are read


class UnfinishedBatches(NamedTuple):
    """``operations`` of operators and batches of ``jobs`` that are not over, and the ``open`` jobs of these."""

    operations: int
    jobs: int
    open: int


def unfinished(using: str) -> UnfinishedBatches:
    """Count batches that are not over, and the open jobs of the first 500 of them."""
    going = (BatchState.OPEN, BatchState.SEEDING, BatchState.RUNNING)
    rows = Batch.objects.using(using).filter(state__in=going).order_by("create_time")
    found = list(rows.values_list("pk", "type"))
    of_jobs = [pk for pk, type in found if type == JOBS]
    opened = sum(each.figures.open for each in states(using, of_jobs[:_MOST]))
    return UnfinishedBatches(len(found) - len(of_jobs), len(of_jobs), opened)
