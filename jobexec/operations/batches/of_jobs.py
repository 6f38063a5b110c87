"""Batches of a project's own jobs: begin them, add children, seal them and retry failed jobs."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import connections, transaction
from django.utils.translation import gettext_noop

from jobexec import clock
from jobexec.conf import get_settings
from jobexec.exceptions import BatchNotFound, BatchOver, BatchSealed
from jobexec.models import BATCH_HANDLERS, Batch, BatchState, DeadLetterJob
from jobexec.models.batch import JOBS
from jobexec.retry import default_plan

from ..audit import audited, note
from ..manage.adjust import requeue
from ..rows.tallies import count, look_on_commit, states
from ..sql.dialect import dialect
from ..sql.errors import storable
from ..sql.locks import lock_rows
from ..sql.server_time import keep_time
from ..targets.for_each import OperationResult, database_of
from ..values.batch_figures import Figures
from .found import find_batch
from .jobs import MONITOR, enqueue_own

#: Why :func:`retry_batch` has changed nothing.
NO_FAILED_JOBS = gettext_noop("it has no failed jobs")


def begin_batch(
    using: str,
    *,
    name: str,
    arguments: Mapping[str, Any],
    deadline: datetime | timedelta | None,
    tenant_id: str,
    user: str,
    id: UUID | None = None,
) -> Batch:
    """Insert an open batch and its monitor, in the caller's transaction; ``id`` is a new one if it is not given."""
    get_settings().engine(using)
    keep_time(using)
    now = clock.now(using)
    until = now + deadline if isinstance(deadline, timedelta) else deadline
    batch = Batch(
        type=JOBS,
        name=storable(name),
        state=BatchState.OPEN,
        arguments=dict(arguments),
        deadline=until,
        tenant_id=tenant_id,
        create_user=storable(user)[:255],
        create_time=now,
        **({} if id is None else {"id": id}),
    )
    with transaction.atomic(using=using):
        batch.save(using=using, force_insert=True)
        enqueue_own(using, batch, MONITOR, 0, due_date=next_look(batch, now, 0))
    return batch


_SLOWEST = 4  # powers of two by which the monitor of a batch of jobs slows down


def next_look(batch: Batch, now: datetime, idle: int) -> datetime:
    """When the monitor next looks at the batch by itself, after ``idle`` looks that found nothing new."""
    wait: datetime = now + get_settings().batch_poll_time * 2 ** min(idle, _SLOWEST)
    return wait if batch.deadline is None or batch.over else min(wait, max(now, batch.deadline))


def hold_open(using: str, id: UUID, *, child: bool) -> Batch:
    """In a transaction: keep the batch from being sealed and from ending until the transaction ends.

    Any number of transactions may hold it at the same time. ``child``: the caller is a running child of the batch.
    Raises BatchNotFound, BatchOver, and BatchSealed.
    """
    batch = _shared(using, id)
    if batch is None:
        raise _not_found(id, using)
    if batch.over:
        raise BatchOver(f"The batch {id} has ended ({batch.state}): it takes no more jobs.")
    if batch.state != BatchState.OPEN and not (child and batch.arguments.get("grows")):
        raise BatchSealed(f"The batch {id} is sealed: it takes no more jobs.")
    return batch


def _shared(using: str, id: UUID) -> Batch | None:
    rows, shares = Batch.objects.using(using).defer("selection").filter(pk=id, type=JOBS), dialect(using).shares
    if not shares:
        return lock_rows(rows, no_key=True).first()
    connection = connections[using]
    with connection.cursor() as cursor:
        statement = f"SELECT state FROM {Batch._meta.db_table} WHERE id = %s {shares}"
        cursor.execute(statement, [Batch._meta.pk.get_db_prep_value(id, connection)])
        locked = cursor.fetchone()
    if locked is None:
        return None
    batch = rows.first()
    if batch is not None:
        batch.state = locked[0]  # the current one; under REPEATABLE READ the second statement reads an older snapshot
    return batch


def count_added(using: str, batch: Batch, number: int) -> None:
    """Count new children, in the transaction that holds the batch open and inserts them."""
    if number:
        count(using, {batch.pk: number}, added=1)


@audited
def seal_batch(id: UUID | str, *, using: str | None = None) -> Batch:
    """Seal a batch of jobs: it takes no more jobs, and ends with the last one that it has.

    Does nothing if it is sealed. Waits for transactions that are adding jobs. Raises
    :class:`~jobexec.exceptions.BatchNotFound` and :class:`~jobexec.exceptions.BatchOver`.
    """
    database = database_of(None, using)
    pk = find_batch(id, database, of_jobs=True).pk
    with transaction.atomic(using=database):
        # Not the weaker lock: the transactions that hold the batch open must end first.
        batch = lock_rows(Batch.objects.using(database).defer("selection").filter(pk=pk)).first()
        if batch is None:
            raise _not_found(pk, database)
        if batch.over:
            raise BatchOver(f"The batch {pk} has ended ({batch.state}).")
        if batch.state == BatchState.OPEN:
            batch.state = BatchState.RUNNING
            batch.save(using=database, update_fields=["state"])
            note(database, "batch", batch.pk, tenant=batch.tenant_id or None)
            look_on_commit(database, [batch.pk])
    return batch


@audited
def retry_batch(id: UUID | str, retries: int | None = None, *, using: str | None = None) -> OperationResult:
    """Requeue the dead letters of a batch of jobs; a batch that has failed continues.

    Each gets ``retries`` attempts, by default those of DEFAULT_RETRY_PLAN. Its deadline, if it has passed, no longer
    counts. ``on_failure`` is not called again; ``on_success`` is, once all jobs are done. Raises
    :class:`~jobexec.exceptions.BatchNotFound`, and :class:`~jobexec.exceptions.BatchOver` if it was cancelled.
    """
    database = database_of(None, using)
    batch = find_batch(id, database, of_jobs=True)
    if batch.state == BatchState.CANCELLED:
        raise BatchOver(f"The batch {batch.pk} has been cancelled.")
    dead = DeadLetterJob.objects.using(database).filter(batch_id=batch.pk).exclude(handler_type__in=BATCH_HANDLERS)
    return requeue(dead, default_plan().attempts if retries is None else retries, using=database)


def figures_of(using: str, id: UUID) -> Figures:
    """The figures of a batch of jobs up to this moment, in one statement, however many jobs it has.

    Raises :class:`~jobexec.exceptions.BatchNotFound`.
    """
    found = states(using, [id])
    if not found:
        raise _not_found(id, using)
    return found[0].figures


def _not_found(id: UUID, using: str) -> BatchNotFound:
    return BatchNotFound(f"There is no batch of jobs {id} in {using!r}.")
