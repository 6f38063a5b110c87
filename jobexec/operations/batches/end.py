"""The end of a batch is seen at once: its monitor does not sleep when the last piece is done."""

from __future__ import annotations

from django.db import connections
from django.db.models import Exists

from jobexec.models import Batch, BatchPart, TimerJob

from ..manage.adjust import retry_now
from .jobs import MONITOR


def hurry_on_commit(using: str, batch: Batch) -> None:
    """Once the current transaction has committed: let the monitor look at once if no piece is open any more.

    After the commit, and both by each piece and by a monitor that has just gone to sleep: of pieces and monitors that
    end at the same time none sees the others before, and whichever commits last sees them all then. No row is locked
    for it but that of the monitor's job. Whoever is killed in between leaves it to the monitor's own date.
    """
    connections[using].on_commit(lambda: _hurry(using, batch), robust=True)


def _hurry(using: str, batch: Batch) -> None:
    open_parts = BatchPart.objects.filter(batch_id=batch.pk, end_time=None)
    asleep = TimerJob.objects.using(using).filter(
        ~Exists(open_parts), process_instance_id=batch.process_instance_id, handler_type=MONITOR, attempts=0
    )
    ids = list(asleep.values_list("pk", flat=True))
    if ids:
        retry_now(ids, using=using)
