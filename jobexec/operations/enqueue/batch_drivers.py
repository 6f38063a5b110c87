"""The jobs that carry a batch on: its seed and its monitor."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from functools import reduce
from operator import or_
from typing import Any

from django.db.models import Exists, Q

from jobexec.conf import get_settings
from jobexec.models import BATCH_HANDLERS, HANDLER_TABLES, AbstractJob, Batch, BatchState
from jobexec.models.batch import JOBS
from jobexec.retry import default_plan

from ..rows.tallies import batches_of
from ..sql.locks import lock_rows
from .create import create_job

SEED, _, MONITOR = BATCH_HANDLERS

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
    create_job(using, **own_columns(batch, handler), handler_configuration=configuration, due_date=due_date)


def own_columns(batch: Batch, handler: str) -> dict[str, Any]:
    """The columns of a job that the batch makes for itself."""
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


def reopen(using: str, dead: Iterable[AbstractJob]) -> None:
    """Reopen the batches that have ended with these dead letters, before those run again.

    Call it in the transaction that moves them, after locking them. The batch's row stays locked: a monitor that is
    about to end the batch would not see the move.
    """
    batches = batches_of(dead)
    found = Batch.objects.using(using).defer("selection").filter(pk__in=batches, type=JOBS).order_by("pk")
    for batch in lock_rows(found, no_key=True) if batches else ():
        if batch.state == BatchState.FAILED:
            batch.state, batch.end_time, batch.deadline = BatchState.RUNNING, None, None
            batch.save(using=using, update_fields=["state", "end_time", "deadline"])
            if not Batch.objects.using(using).filter(driven(batch), pk=batch.pk).exists():
                enqueue_own(using, batch, MONITOR, 0)
