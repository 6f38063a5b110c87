"""Notice the end of a batch immediately: wake the sleeping monitor when the last piece is done."""

from __future__ import annotations

from functools import partial

from django.db import connections
from django.db.models import Exists

from jobexec.models import Batch, BatchPart, TimerJob

from ..manage.adjust import retry_now
from ..sql.on_commit import after_commit
from .jobs import MONITOR


def hurry_on_commit(using: str, batch: Batch) -> None:
    """After the current transaction has committed, make the monitor run immediately if no piece is open any more.

    Each piece checks this after its commit, and so does a monitor that goes to sleep: pieces and monitors that end at
    the same time do not see each other before their commits, but the last to commit sees them all. Only the row of the
    monitor's job is locked. If the process is killed in between, the monitor runs at its own due date.
    """
    after_commit(connections[using], partial(_hurry, using, batch))


def _hurry(using: str, batch: Batch) -> None:
    open_parts = BatchPart.objects.filter(batch_id=batch.pk, end_time=None)
    asleep = TimerJob.objects.using(using).filter(
        ~Exists(open_parts), process_instance_id=batch.process_instance_id, handler_type=MONITOR, attempts=0
    )
    ids = list(asleep.values_list("pk", flat=True))
    if ids:
        retry_now(ids, using=using)
