"""Start and control batches: one operation on any number of jobs, done in pieces by the batch's own jobs.

(Camunda: Batch.) This module has the verbs for operators; :mod:`~jobexec.operations.batches.work` has the work of the
batch's jobs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import BooleanField, Case, F, Model, OuterRef, Q, QuerySet, Subquery, Sum, When
from django.db.models.functions import Coalesce

from jobexec import clock, signals
from jobexec.exceptions import BatchNotFound, BatchOver, InvalidJob
from jobexec.models import Batch, BatchFailure, BatchPart, BatchState, BatchTally, DeadLetterJob
from jobexec.retry import default_plan

from ..audit import MOST_IDS, audited, authorize, note
from ..manage.adjust import requeue
from ..manage.suspend import activate, suspend
from ..manage.verbs import OPERATIONS, as_json, operation_named
from ..notify.signals import announce
from ..query.stored_filter import MAX_IDS, Description, describe, job_table, tenant_of
from ..rows.tallies import look_on_commit, states
from ..sql.delete import delete_rows
from ..sql.errors import storable
from ..sql.locks import atomic
from ..sql.server_time import time_of
from ..targets.for_each import Target, database_of, ids_of
from .found import find_batch
from .jobs import DRIVERS, MONITOR, SEED, driven, enqueue_own
from .watch import cancel_some, figures
from .work import clear_some, lock_batch

__all__ = [
    "OPERATIONS",
    "BatchProgress",
    "activate_batch",
    "batch_progress",
    "cancel_batch",
    "delete_batch",
    "start_batch",
    "suspend_batch",
]

_PAGE = 1000
_GOING = (BatchState.OPEN, BatchState.SEEDING, BatchState.RUNNING)
MAX_FAILED_JOBS = 1000


class BatchProgress(NamedTuple):
    """The progress of a batch, in jobs of its selection; ``failed_jobs`` counts the batch's own jobs.

    ``total`` jobs were found so far: ``changed`` are done, ``skipped`` were skipped, with the reason in a
    BatchFailure, and ``open`` are not done yet, or never will be if the batch was cancelled. ``failed_jobs`` of the
    batch's own jobs are dead letters (counted up to 1000): it continues when they are requeued, and ends when they are
    deleted. ``stalled``: its seed or monitor job is missing or a dead letter, so it makes no progress until it is
    activated or cancelled.

    In a batch of jobs: ``changed`` ones are completed, ``skipped`` ones were removed undone, ``failed_jobs`` are all of
    its dead letters, and ``open`` are those that may still run.
    """

    total: int
    changed: int
    skipped: int
    open: int
    failed_jobs: int
    stalled: bool = False


@audited
def start_batch(
    operation: str,
    target: Target,
    *,
    arguments: Mapping[str, Any] | None = None,
    using: str | None = None,
    user: str = "",
) -> Batch:
    """Start a batch that performs one of :data:`OPERATIONS` on any number of jobs; return the batch.

    Works in the caller's transaction, and only stores the selection. A queryset over one job table with plain
    conditions is stored as these conditions: the batch processes the jobs that matched them when it was started, when
    it finds them, and when their turn comes. Anything else (rows, ids, other querysets) is stored as ids, at most
    100,000 (:data:`~jobexec.operations.query.stored_filter.MAX_IDS`). ``arguments`` are the operation's arguments by
    name. ``user`` is the name of the user that starts the batch.

    Raises :class:`~jobexec.exceptions.InvalidJob` for an unknown operation, missing, unknown or invalid arguments, a
    queryset over another model, or one that cannot be described and finds too many jobs.
    """
    asked = operation_named(operation)
    given = as_json(asked.read(dict(arguments or {})))
    database = database_of(target, using)
    # As if the operation were done at once: the policy is not asked about its pieces.
    authorize(operation, target, database, given, also_within=True)
    selection = _selection(target)
    batch = Batch(
        type=operation,
        arguments=given,
        selection=selection,
        tenant_id=tenant_of(selection),
        create_user=storable(user)[:255],
        # Not before jobs that died by the database's time, even if this process's clock is slow.
        create_time=max(clock.now(database), time_of(database)),
    )
    with atomic(database):
        batch.save(using=database, force_insert=True)
        enqueue_own(database, batch, SEED)
        _note(database, batch, {"operation": operation, **given}, selection)
    return batch


def _note(using: str, batch: Batch, new: Mapping[str, Any] | None = None, selection: Description | None = None) -> None:
    scope = {**selection, "ids": selection["ids"][:MOST_IDS]} if selection and "ids" in selection else selection
    note(using, "batch", batch.pk, new=new, tenant=batch.tenant_id or None, scope=scope)


def _selection(target: Target) -> Description:
    if isinstance(target, QuerySet):
        job_table(target)
        try:
            return describe(target)
        except InvalidJob as error:
            found = list(target.values_list("pk", flat=True)[: MAX_IDS + 1])
            if len(found) > MAX_IDS:
                raise InvalidJob(f"{error} Otherwise, expected at most {MAX_IDS} jobs, got more.") from error
    else:
        found = list(ids_of(target))
        if len(found) > MAX_IDS:
            raise InvalidJob(f"selection: expected at most {MAX_IDS} jobs, or a queryset; got {len(found)}.")
    return {"ids": sorted({id.hex for id in found})}


def batch_progress(batch: Batch) -> BatchProgress:
    """The batch's current progress, in two statements, however large it is."""
    using = batch._state.db or "default"
    if batch.of_jobs:
        return _progress_of_jobs(using, batch)
    done = BatchPart.objects.filter(batch_id=OuterRef("pk"), end_time__isnull=False).order_by().values("batch_id")
    rows = Batch.objects.using(using).filter(pk=batch.pk)
    # One statement, hence one snapshot: what the monitor is just moving from the parts to the batch counts once.
    found = rows.values_list(
        "total",
        F("changed") + Coalesce(Subquery(done.annotate(sum=Sum("changed")).values("sum")), 0),
        F("skipped") + Coalesce(Subquery(done.annotate(sum=Sum("skipped")).values("sum")), 0),
        Case(When(Q(state__in=_GOING) & ~driven(batch), then=True), default=False, output_field=BooleanField()),
    ).first()
    total, changed, skipped, stalled = found or (batch.total, batch.changed, batch.skipped, False)
    dead = DeadLetterJob.objects.using(using).filter(process_instance_id=batch.process_instance_id)
    failed = dead.order_by()[:MAX_FAILED_JOBS].count()
    return BatchProgress(total, changed, skipped, max(0, total - changed - skipped), failed, stalled)


def _progress_of_jobs(using: str, batch: Batch) -> BatchProgress:
    found = states(using, [batch.pk])
    now = found[0].figures if found else figures(batch)
    stalled = Batch.objects.using(using).filter(~driven(batch), pk=batch.pk, state__in=_GOING).exists()
    return BatchProgress(now.total, now.completed, now.cancelled, now.open, now.failed, stalled)


@audited
def suspend_batch(id: UUID | str, *, using: str | None = None) -> Batch:
    """Stop starting the batch's jobs; running ones finish. It can be activated again.

    Raises :class:`~jobexec.exceptions.BatchNotFound`, :class:`~jobexec.exceptions.BatchOver` if it has ended, and
    :class:`~jobexec.exceptions.InvalidJob` for a batch of jobs: they are suspended by their handler, or one by one.
    """
    batch = _unfinished(id, using)
    if batch.of_jobs:
        raise InvalidJob(f"The batch {batch.pk} is one of jobs, which are suspended by their handler or one by one.")
    suspend(process_instance_id=batch.process_instance_id, using=batch._state.db)
    return batch


@audited
def activate_batch(id: UUID | str, *, using: str | None = None) -> Batch:
    """Undo :func:`suspend_batch`; the batch continues where it was. Raises the same errors.

    A seed or monitor job that is missing (an operator deleted it) is created again, and one that is a dead letter is
    requeued.
    """
    batch = _unfinished(id, using)
    database = batch._state.db or "default"
    activate(process_instance_id=batch.process_instance_id, using=database)
    _drive(database, batch.pk)
    return batch


def _drive(using: str, id: UUID) -> None:
    """Ensure that the batch has a seed or monitor job."""
    with atomic(using):
        # Seeds and monitors replace themselves under this lock, so no other process creates one at the same time.
        batch = lock_batch(using, id)
        if batch is None or batch.over or Batch.objects.using(using).filter(driven(batch), pk=id).exists():
            return
        own = {"process_instance_id": batch.process_instance_id, "handler_type__in": DRIVERS}
        dead = list(DeadLetterJob.objects.using(using).filter(**own).values_list("pk", flat=True)[:1])
        if dead and requeue(dead, default_plan().attempts, using=using):
            return
        enqueue_own(using, batch, *([SEED] if batch.state == BatchState.SEEDING else [MONITOR, 0]))


@audited
def cancel_batch(id: UUID | str, *, using: str | None = None) -> Batch:
    """Cancel a batch: its jobs are removed, and a running one finishes its part. Completed work is not undone.

    In a batch of jobs, waiting jobs are removed, and running ones are asked to stop; dead letters stay. No call of the
    batch is enqueued.

    Raises :class:`~jobexec.exceptions.BatchNotFound`, and :class:`~jobexec.exceptions.BatchOver` if it has completed;
    cancelling it again only removes what an interrupted call has left.
    """
    database = database_of(None, using)
    found = find_batch(id, database)
    pk = found.pk
    with atomic(database):
        # A batch of jobs waits for transactions that are adding jobs.
        batch = lock_batch(database, pk, to_delete=found.of_jobs)
        if batch is not None and not batch.over:
            batch.state, batch.end_time = BatchState.CANCELLED, clock.now(database)
            batch.save(using=database, update_fields=["state", "end_time"])
            _note(database, batch)
            if batch.of_jobs:
                announce(signals.batch_ended, database, Batch, batch=batch)
    # Outside the block: an error within would break the caller's transaction, in which the caller may continue.
    if batch is None:
        raise BatchNotFound(f"There is no batch {id}.")
    if batch.state in (BatchState.COMPLETED, BatchState.FAILED):
        raise BatchOver(f"The batch {id} has {batch.state}.")
    clear = cancel_some if batch.of_jobs else clear_some
    while clear(database, batch.pk):
        pass
    if batch.of_jobs:
        look_on_commit(database, [batch.pk])
    activate(process_instance_id=batch.process_instance_id, using=database)
    return find_batch(id, database)


@audited
def delete_batch(id: UUID | str, *, using: str | None = None) -> None:
    """Delete a batch with its failures; an unfinished batch is cancelled first (Camunda: deleteBatch).

    Completed work is not undone. Raises :class:`~jobexec.exceptions.BatchNotFound`.
    """
    database = database_of(None, using)
    batch = find_batch(id, database)
    if batch.state not in (BatchState.COMPLETED, BatchState.FAILED):
        cancel_batch(batch.pk, using=database)
    _clear(database, batch.pk, BatchFailure)
    with atomic(database):
        # Waits for a job of the batch that is writing the result of its piece; a later job finds no batch.
        lock_batch(database, batch.pk, to_delete=True)
        _clear(database, batch.pk, BatchPart, BatchFailure, BatchTally)
        delete_rows(Batch.objects.using(database).filter(pk=batch.pk))
        _note(database, batch, {"operation": batch.type})


def _clear(using: str, batch: UUID, *models: type[Model]) -> None:
    """Delete the rows of a batch, page by page and by their keys: then the statement locks no others."""
    for model in models:
        rows = model._base_manager.using(using).filter(batch_id=batch).values_list("pk", flat=True)
        while page := list(rows[:_PAGE]):
            delete_rows(model._base_manager.using(using).filter(pk__in=page))


def _unfinished(id: UUID | str, using: str | None) -> Batch:
    batch = find_batch(id, database_of(None, using))
    if batch.over:
        raise BatchOver(
            f"The batch {id} has {'been cancelled' if batch.state == BatchState.CANCELLED else batch.state}."
        )
    return batch
