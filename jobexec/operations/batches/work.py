"""The work of a batch's jobs: seed, execute, monitor. Each runs in one transaction with the end of its job.

Rows are locked in this order: the selected jobs, the batch, its parts, the batch's own jobs.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Sequence
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet
from django.utils.translation import gettext_noop

from jobexec import clock
from jobexec.conf import get_settings
from jobexec.models import JOB_TABLES, AbstractJob, Batch, BatchPart, BatchState, DeadLetterJob, SuspendedJob
from jobexec.models.batch import JOBS

from ..audit import permitted
from ..manage.verbs import Verb, operation_named
from ..query.stored_filter import described_ids, resolve
from ..rows.remove import remove_waiting
from ..sql.delete import delete_rows
from ..sql.locks import atomic, lock_rows
from ..sql.session import is_of_connection
from ..targets.for_each import OperationResult
from ..targets.lookup import find_states
from .end import hurry_on_commit
from .jobs import EXECUTION, MONITOR, SEED, enqueue_own, enqueue_parts
from .results import add, record
from .watch import watch

_PAGE = 500  # jobs of a cancelled batch that a transaction removes
_FOLD = 5000  # parts that a run of the monitor sums up
_LOOK = 1000  # parts whose jobs' existence a run of the monitor checks
_SLOWEST = 6  # powers of two by which the monitor slows down

NO_LONGER_MEANT = gettext_noop("it no longer matches the selection")


def lock_batch(using: str, id: UUID, *, to_delete: bool = False) -> Batch | None:
    """The batch, locked until the transaction ends; None if it is gone. Its selection is deferred.

    Only ``to_delete`` waits for jobs that write BatchFailure rows, and makes them wait.
    """
    rows = Batch.objects.using(using).defer("selection").filter(pk=id)
    return lock_rows(rows, no_key=not to_delete).first()


def seed(using: str, id: UUID) -> None:
    """Create execution jobs for the next part of the selection, and the next seed job, or at the end the monitor job.

    Camunda: BatchSeedJobHandler. Raises InvalidJob if the selection cannot be read.
    """
    with atomic(using):
        batch = lock_batch(using, id)
        if batch is None or batch.state != BatchState.SEEDING:
            return _finish_cancelling(using, batch)
        settings = get_settings()
        size = settings.invocations_per_batch_job
        most = size * settings.batch_jobs_per_seed
        ids, matching = _next_ids(using, batch, most)
        if ids:
            pieces = [ids[start : start + size] for start in range(0, len(ids), size)]
            enqueue_parts(using, batch, pieces, matching=matching)
            batch.cursor, batch.total, batch.parts = ids[-1].hex, batch.total + len(ids), batch.parts + len(pieces)
        if len(ids) < most:
            batch.state = BatchState.RUNNING
        batch.save(using=using, update_fields=["cursor", "total", "parts", "state"])
        enqueue_own(using, batch, *([MONITOR, 0] if len(ids) < most else [SEED]))


def _next_ids(using: str, batch: Batch, most: int) -> tuple[list[UUID], bool]:
    """The next ids of the selection, and whether conditions found them."""
    listed = described_ids(batch.selection)
    if listed is not None:
        start = bisect_right(listed, UUID(batch.cursor)) if batch.cursor else 0
        return listed[start : start + most], False
    rows = _meant(using, batch)
    if batch.cursor:
        rows = rows.filter(pk__gt=UUID(batch.cursor))
    return list(rows.order_by("pk").values_list("pk", flat=True)[:most]), True


def _meant(using: str, batch: Batch) -> QuerySet[Any]:
    """The jobs that match the conditions and already did when the batch was started, without the batch's own jobs.

    The time at which a job became executable, or a timer, is not stored: for these, the creation time counts.
    """
    rows = resolve(batch.selection, using)
    held_since = {DeadLetterJob: "died_at", SuspendedJob: "suspended_at"}
    since = "create_time" if rows.model.runnable else held_since[rows.model]
    return rows.filter(**{f"{since}__lte": batch.create_time}).exclude(batch_id=batch.pk)


def execute(using: str, id: UUID, job_id: UUID, ids: Sequence[UUID], matching: bool) -> None:
    """Perform the operation on these jobs and record the result; ``job_id`` is the execution job.

    A job that is refused or fails becomes a BatchFailure and does not affect the others. Raises InvalidJob if
    operation, arguments or selection cannot be read.
    """
    with atomic(using):
        batch = Batch.objects.using(using).defer(*([] if matching else ["selection"])).filter(pk=id).first()
        if batch is None or batch.over:
            return
        operation = operation_named(batch.type)
        operation.read(batch.arguments)
        rows = _meant(using, batch) if matching else None
        meant = ids if rows is None else _still_meant(rows, ids)
        result = _perform(operation, batch, meant, None if rows is None else rows.model, using)
        result.skipped |= dict.fromkeys(set(ids).difference(meant), NO_LONGER_MEANT)
        record(using, batch, job_id, result)
        hurry_on_commit(using, batch)


def _still_meant(rows: QuerySet[Any], ids: Collection[UUID]) -> list[UUID]:
    """The jobs that still match, locked together and in a fixed order, before any other lock."""
    return list(lock_rows(rows.filter(pk__in=ids).order_by("pk")).values_list("pk", flat=True))


def _perform(
    operation: Verb, batch: Batch, ids: Sequence[UUID], table: type[AbstractJob] | None, using: str
) -> OperationResult:
    """Perform the operation on all jobs together; if that fails, one by one, so that only failing jobs are skipped.

    ``table`` is the jobs' table, if known.
    """
    try:
        return _attempt(operation, batch, ids, table, using)
    except Exception as error:
        if is_of_connection(error):
            raise  # the whole job is retried
        if len(ids) == 1:
            return OperationResult(skipped={ids[0]: f"{type(error).__name__}: {error}"})
    result = OperationResult()
    for id in ids:
        one = _perform(operation, batch, [id], table, using)
        result.changed += one.changed
        result.skipped |= one.skipped
    return result


def _attempt(
    operation: Verb, batch: Batch, ids: Sequence[UUID], table: type[AbstractJob] | None, using: str
) -> OperationResult:
    if not ids:
        return OperationResult()
    # A queryset names the jobs' table, which saves a search in all tables.
    target = list(ids) if table is None else table._base_manager.using(using).filter(pk__in=ids).order_by("pk")
    with transaction.atomic(using=using), permitted():  # as start_batch was
        return operation.act(target, batch.arguments, using)


def monitor(using: str, id: UUID, idle: int) -> None:
    """Sum up the finished parts, and end the batch after the last one, or check again later.

    ``idle`` is the number of consecutive checks that found nothing new. Camunda: BatchMonitorJobHandler.
    """
    if Batch.objects.using(using).filter(pk=id, type=JOBS).exists():
        return watch(using, id, idle)
    with atomic(using):
        batch = lock_batch(using, id)
        if batch is None or batch.state != BatchState.RUNNING:
            return _finish_cancelling(using, batch)
        folded = _fold(using, batch)
        now = clock.now(using)
        if not BatchPart.objects.using(using).filter(batch_id=id).exists():
            ended = {"state": BatchState.COMPLETED, "end_time": now}
            Batch.objects.using(using).filter(pk=id).update(**ended)
            return
        idle = 0 if folded else min(idle + 1, _SLOWEST)
        wait = get_settings().batch_poll_time * 2**idle
        enqueue_own(using, batch, MONITOR, idle, due_date=None if folded == _FOLD else now + wait)
        hurry_on_commit(using, batch)


def _fold(using: str, batch: Batch) -> int:
    """Add finished parts to the batch and delete them; return how many. A deleted job's part counts as skipped."""
    parts = BatchPart.objects.using(using).filter(batch_id=batch.pk)
    done = list(parts.filter(end_time__isnull=False).values_list("pk", "changed", "skipped")[:_FOLD])
    done += [(pk, 0, size) for pk, size in _abandoned(using, parts)]
    if done:
        add(using, batch.pk, sum(part[1] for part in done), sum(part[2] for part in done))
        delete_rows(BatchPart.objects.using(using).filter(pk__in=[part[0] for part in done]))
    return min(len(done), _FOLD)


def _abandoned(using: str, parts: QuerySet[BatchPart]) -> list[tuple[int, int]]:
    unfinished = list(parts.filter(end_time=None).order_by("pk").values_list("job_id", flat=True)[:_LOOK])
    if not unfinished:
        return []
    gone = set(unfinished).difference(find_states(unfinished, using))
    # Checked again: between the two statements above, a job may have ended normally.
    left = parts.filter(job_id__in=gone, end_time=None).order_by("pk")
    return list(lock_rows(left).values_list("pk", "size")) if gone else []


def _finish_cancelling(using: str, batch: Batch | None) -> None:
    """Continue a cancellation that may have been interrupted, one page for each job."""
    if batch is not None and batch.state == BatchState.CANCELLED and clear_some(using, batch.pk):
        enqueue_own(using, batch, MONITOR, 0)


def clear_some(using: str, id: UUID) -> bool:
    """Remove a page of what a cancelled batch has left, in one transaction; return whether there may be more.

    The seed or monitor job is removed last: it continues if the cancellation is interrupted.
    """
    with atomic(using):
        batch = lock_batch(using, id)
        if batch is None:
            return False
        parts = list(
            lock_rows(BatchPart.objects.using(using).filter(batch_id=id).order_by("pk"))[:_FOLD].values_list(
                "pk", "changed", "skipped"
            )
        )
        if parts:
            add(using, id, sum(part[1] for part in parts), sum(part[2] for part in parts))
            delete_rows(BatchPart.objects.using(using).filter(pk__in=[part[0] for part in parts]))
        if _remove_jobs(using, batch, handler_type=EXECUTION) or parts:
            return True
        _remove_jobs(using, batch)
        return False


def _remove_jobs(using: str, batch: Batch, **among: str) -> int:
    """Remove a page of the batch's own unlocked jobs from each table; running jobs notice the cancellation."""
    own = {"process_instance_id": batch.process_instance_id, "batch_id": batch.pk, "lock_owner": None}
    count = 0
    for table in JOB_TABLES:
        found = table._base_manager.using(using).filter(**own, **among).order_by("pk")
        rows = list(lock_rows(found, skip_locked=True)[:_PAGE])
        if rows:
            remove_waiting(using, rows)
            count += len(rows)
    return count
