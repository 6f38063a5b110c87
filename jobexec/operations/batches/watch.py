"""The monitor of a batch of jobs: adds up what was counted, calls what follows, and ends the batch.

Rows are locked in this order: children (of a batch that is cancelled), the batch, new jobs. Its tallies need no lock:
they never change, and only a transaction that holds the batch's row deletes them.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Q

from jobexec import clock, signals
from jobexec.models import BATCH_HANDLERS, WAITING_TABLES, Batch, BatchState, BatchTally

from ..audit import permitted
from ..enqueue.stored_calls import create_stored
from ..manage.cancel import cancel
from ..notify.signals import announce
from ..rows.tallies import look_on_commit
from ..sql.delete import delete_rows
from ..sql.locks import atomic, lock_rows
from ..values.batch_figures import Figures, holding
from .jobs import MONITOR, enqueue_own
from .of_jobs import next_look

_FOLD = 5000  # tallies that a run adds up
_PAGE = 500  # children of a cancelled batch that a run removes


def watch(using: str, id: UUID, idle: int) -> None:
    """Look at a batch of jobs, in one transaction with the end of the monitor job; the next check is another job.

    ``idle`` is the number of consecutive looks that found nothing new. The policy is not asked: it was asked about the
    calls when the batch began.
    """
    with permitted():
        _watch(using, id, idle)


def _watch(using: str, id: UUID, idle: int) -> None:
    removed = _is_broken_off(using, id) and cancel_some(using, id)
    with atomic(using):
        batch = _locked(using, id)
        if batch is None:
            return
        folded = fold(using, batch)
        now, ended = clock.now(using), False
        if folded < _FOLD and not batch.over:
            ended = _decide(using, batch, now)
        if batch.over and not figures(batch).open:
            return
        idle = 0 if folded or removed else idle + 1
        more = folded == _FOLD or removed or ended  # at its deadline: cancel the rest
        enqueue_own(using, batch, MONITOR, idle, due_date=batch.create_time if more else next_look(batch, now, idle))
        look_on_commit(using, [id])


def _locked(using: str, id: UUID, *, alone: bool = False) -> Batch | None:
    """The batch, locked; ``alone``: also against transactions that add jobs to it."""
    return lock_rows(Batch.objects.using(using).defer("selection").filter(pk=id), no_key=not alone).first()


def figures(batch: Batch) -> Figures:
    """The sums of the tallies."""
    return Figures(batch.total, batch.changed, batch.failed, batch.skipped)


def fold(using: str, batch: Batch) -> int:
    """Add tallies to a batch that the caller has locked, and delete them; return how many."""
    tallies = BatchTally.objects.using(using).filter(batch_id=batch.pk).order_by("pk")
    rows = list(tallies.values_list("pk", "added", "completed", "failed", "cancelled")[:_FOLD])
    if rows:
        batch.total += sum(row[1] for row in rows)
        batch.changed += sum(row[2] for row in rows)
        batch.failed += sum(row[3] for row in rows)
        batch.skipped += sum(row[4] for row in rows)
        batch.save(using=using, update_fields=["total", "changed", "failed", "skipped"])
        delete_rows(BatchTally.objects.using(using).filter(pk__in=[row[0] for row in rows]))
    return len(rows)


def _decide(using: str, batch: Batch, now: datetime) -> bool:
    """End the batch if it is finished, and make the calls whose conditions hold; return whether it has ended."""
    late = batch.deadline is not None and batch.deadline <= now
    if late or (batch.state == BatchState.RUNNING and not figures(batch).open):
        # A run that another node has taken over may still be adding jobs: after waiting for it, count again.
        _locked(using, batch.pk, alone=True)
        while fold(using, batch) == _FOLD:
            pass
        if late or not figures(batch).open:
            _end(using, batch, now)
            return True
    _call(using, batch, holding(batch.arguments, figures(batch), sealed=batch.state == BatchState.RUNNING))
    return False


def _end(using: str, batch: Batch, now: datetime) -> None:
    total = figures(batch)
    done = total.completed == total.total and batch.state == BatchState.RUNNING
    batch.state, batch.end_time = BatchState.COMPLETED if done else BatchState.FAILED, now
    follows = "on_success" if done else "on_failure"
    conditions = holding(batch.arguments, total, sealed=True, over=True)
    # No second transaction finds the batch in this state, so the calls are made exactly once.
    batch.save(using=using, update_fields=["state", "end_time"])
    _call(using, batch, [*conditions, follows])
    announce(signals.batch_ended, using, Batch, batch=batch)


def _call(using: str, batch: Batch, names: list[str]) -> None:
    """Insert the jobs of these calls of the batch, each once in its life."""
    arguments: dict[str, Any] = batch.arguments
    fired = arguments.setdefault("fired", [])
    new = [name for name in dict.fromkeys(names) if name not in fired]
    for name in new:
        call = (arguments.get("when") or {}).get(name) or arguments.get(name)
        if call is not None:
            # The callback finds the batch by its process instance. It is not a child, so it has no ``batch_id``.
            defaults = {"process_instance_id": batch.process_instance_id, "tenant_id": batch.tenant_id}
            create_stored(using, call, **{name: value for name, value in defaults.items() if value})
    if new:
        fired += new
        batch.save(using=using, update_fields=["arguments"])


def _is_broken_off(using: str, id: UUID) -> bool:
    over = (BatchState.CANCELLED, BatchState.FAILED)
    return Batch.objects.using(using).filter(pk=id, state__in=over).exists()


def cancel_some(using: str, id: UUID) -> bool:
    """Cancel a page of the children of a batch that takes no more; return whether there were any.

    Dead letters stay.
    """
    for table in WAITING_TABLES:
        rows = table._base_manager.using(using).filter(Q(lock_owner=None) | Q(cancel_requested=False), batch_id=id)
        children = rows.exclude(handler_type__in=BATCH_HANDLERS)
        ids = list(children.values_list("pk", flat=True)[:_PAGE])
        if ids and cancel(ids, using=using).changed:
            return True
    return False
