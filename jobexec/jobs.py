"""jobexec's own jobs; found like those of every app."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from jobexec.exceptions import InvalidJob, UnreadableJob
from jobexec.handlers.context import JobContext
from jobexec.handlers.decorator import job
from jobexec.operations.batches import jobs, work
from jobexec.operations.maintenance import alert_delivery, dead_letter_alerts


@job(name=jobs.SEED, exclusive=False, atomic=True)
def seed_batch(context: JobContext, batch_id: str) -> None:
    """Create the execution jobs of a batch."""
    with _fatal():
        work.seed(context.using, UUID(batch_id))


@job(name=jobs.EXECUTION, exclusive=False, atomic=True)
def execute_batch(context: JobContext, batch_id: str, ids: list[str], matching: bool) -> None:
    """Apply a batch's operation to some of its jobs."""
    with _fatal():
        work.execute(context.using, UUID(batch_id), context.id, [UUID(id) for id in ids], matching)


@job(name=jobs.MONITOR, exclusive=False, atomic=True)
def monitor_batch(context: JobContext, batch_id: str, idle: int) -> None:
    """Complete a batch."""
    work.monitor(context.using, UUID(batch_id), idle)


@job(name=dead_letter_alerts.ALERT, exclusive=False, retries=dead_letter_alerts.RETRIES)
def alert(context: JobContext, target: str, groups: list[dict[str, Any]], others: int = 0) -> None:
    """Tell a target in DEAD_LETTER_ALERTS of new dead letters."""
    alert_delivery.deliver(context.using, str(context.id), target, groups, others)


@contextmanager
def _fatal() -> Iterator[None]:
    """A batch that is unreadable now stays unreadable: do not retry."""
    try:
        yield
    except InvalidJob as error:
        raise UnreadableJob(f"The batch cannot be read: {error}") from error
