"""Remove jobs that a process no longer needs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, TypeAlias
from uuid import UUID

from django.db import connections
from django.db.models import Q

from jobexec import signals
from jobexec.models import JOB_TABLES, AbstractJob, ExternalWorkerJob, Job

from ..notify.signals import announce
from ..sql.locks import atomic, lock_rows, reads_snapshots
from .remove import remove_cancelled

#: A job by its id, or jobs by their execution and, if it is given, their element.
Wanted: TypeAlias = UUID | tuple[str, str | None]
#: Conditions of one statement, which has them once for each table.
_PAGE = 50


def discard_jobs(
    using: str,
    instances: Collection[str],
    executions: Sequence[tuple[str, str | None]],
    ids: Sequence[UUID] = (),
) -> None:
    """Delete jobs of process instances from all tables, without log entries; close their incidents.

    ``executions`` names jobs by ``execution_id`` and element (``failed_activity_id``, None for all elements), ``ids``
    by their ids. A job that a thread has, or that another transaction holds, stays: its run finds out by itself that
    its outcome is not needed. A job of an external worker is deleted even while the worker has it. Never waits for a
    lock.
    """
    wanted: list[Wanted] = [*executions, *ids]
    if not wanted:
        return
    with atomic(using):
        for start in range(0, len(wanted), _PAGE):
            page = wanted[start : start + _PAGE]
            # What a transaction reads in an old snapshot may not be what there is: then only locks tell.
            found = _everywhere(instances, page) if reads_snapshots(using) else _found(using, instances, page)
            for table, condition in found:
                _discard(using, table, condition)


def stop_jobs(using: str, ids: Sequence[UUID], batches: Sequence[UUID] = ()) -> None:
    """Ask jobs that nodes hold, and children of batches, to stop, as by ``cancel``: nobody needs their outcome.

    One that another transaction holds is left out: its run is just ending. Never waits for a lock.
    """
    held = Job._base_manager.using(using).filter(lock_owner__isnull=False).order_by("pk")
    with atomic(using):
        for condition in (Q(pk__in=ids), Q(batch_id__in=batches)) if batches else (Q(pk__in=ids),):
            if found := list(lock_rows(held.filter(condition), skip_locked=True, no_key=True)):
                ask_to_stop(using, found)


def ask_to_stop(using: str, rows: Sequence[AbstractJob]) -> None:
    """Flag running jobs of one table, which the caller has locked; nodes of this process see it at once."""
    # ``revision`` is not incremented: if a job succeeds all the same, its outcome must count.
    type(rows[0])._base_manager.using(using).filter(pk__in=[row.pk for row in rows]).update(cancel_requested=True)
    for row in rows:
        announce(signals.job_cancel_requested, using, type(row), job=row)


def _everywhere(instances: Collection[str], page: Sequence[Wanted]) -> Iterator[tuple[type[AbstractJob], Q]]:
    condition = Q()
    for each in page:
        if isinstance(each, UUID):
            condition |= Q(pk=each)
        else:
            execution, element = each
            condition |= Q(execution_id=execution, **({} if element is None else {"failed_activity_id": element}))
    for table in JOB_TABLES:
        yield table, Q(process_instance_id__in=list(instances)) & condition


def _found(using: str, instances: Collection[str], page: Sequence[Wanted]) -> Iterator[tuple[type[AbstractJob], Q]]:
    """The same by one statement that locks nothing, as nearly always there are none."""
    connection, id_field = connections[using], Job._meta.pk
    values: list[Any] = [*instances]
    conditions: list[str] = []
    for each in page:
        if isinstance(each, UUID):
            conditions.append("id = %s")
            values.append(id_field.get_db_prep_value(each, connection))
        else:
            execution, element = each
            conditions.append("execution_id = %s" + (" AND failed_activity_id = %s" if element is not None else ""))
            values += [execution] if element is None else [execution, element]
    marks = ", ".join(["%s"] * len(instances))
    where = f"WHERE process_instance_id IN ({marks}) AND (({') OR ('.join(conditions)}))"
    free = {table: "" if table is ExternalWorkerJob else " AND lock_owner IS NULL" for table in JOB_TABLES}
    parts = [f"SELECT {n}, id FROM {table._meta.db_table} {where}{free[table]}" for n, table in enumerate(JOB_TABLES)]
    ids: dict[int, list[UUID]] = {}
    with connection.cursor() as cursor:
        cursor.execute(" UNION ALL ".join(parts), values * len(parts))
        for number, id in cursor.fetchall():
            ids.setdefault(number, []).append(id_field.to_python(id))
    for number, those in ids.items():
        yield JOB_TABLES[number], Q(pk__in=those)


def _discard(using: str, table: type[AbstractJob], condition: Q) -> None:
    rows = table._base_manager.using(using).filter(condition).order_by("pk")
    if table is not ExternalWorkerJob:
        rows = rows.filter(lock_owner=None)
    if found := list(lock_rows(rows, skip_locked=True)):
        remove_cancelled(using, found)
