"""Run the jobs of batches one after the other, in the test's own thread and transaction."""

from typing import Any

from jobexec.executor.execute_now import execute_now
from jobexec.models import JOB_TABLES, Batch, DeadLetterJob, Job
from jobexec.operations import trigger_due_timers


def own_jobs(alias: str, batch: Any = None) -> Any:
    """Return the executable jobs of a batch, or of all batches, in acquisition order."""
    rows = Job.objects.using(alias).exclude(batch_id=None).order_by("rank", "pk")
    return rows if batch is None else rows.filter(batch_id=batch.pk)


def run_next(alias: str) -> None:
    """Run the next job of a batch."""
    execute_now(own_jobs(alias).first().pk, using=alias)


def run_due(alias: str) -> int:
    """Run the jobs of batches until none is executable; return their number."""
    count = 0
    while own_jobs(alias).exists():
        run_next(alias)
        count += 1
    return count


def run_to_the_end(alias: str, frozen: Any, batch: Batch) -> Batch:
    """Run all jobs of a batch, including those that it waits for; return the batch in its final state."""
    for _ in range(20):
        run_due(alias)
        batch = Batch.objects.using(alias).get(pk=batch.pk)
        if batch.over:
            break
        frozen.tick(400)
        trigger_due_timers(alias, 100)
    return batch


def dead_letters(alias: str, count: int, **columns: Any) -> list[DeadLetterJob]:
    """Create `count` dead letters, in the order of their ids."""
    columns.setdefault("handler_type", "tests.do_nothing")
    rows = [DeadLetterJob(retries=0, **columns) for _ in range(count)]
    return DeadLetterJob.objects.using(alias).bulk_create(rows)


def dead(alias: str) -> Any:
    """Return all dead letters."""
    return DeadLetterJob.objects.using(alias)


def left(alias: str, batch: Batch) -> dict[str, int]:
    """Count the batch's own jobs in all tables, by handler."""
    found: dict[str, int] = {}
    for table in JOB_TABLES:
        rows = table._base_manager.using(alias).filter(batch_id=batch.pk)
        for handler in rows.values_list("handler_type", flat=True):
            found[handler] = found.get(handler, 0) + 1
    return found
