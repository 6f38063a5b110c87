"""Remove jobs that a process no longer needs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from uuid import UUID

from django.db.models import Q

from jobexec.models import JOB_TABLES, AbstractJob, ExternalWorkerJob

from ..sql.locks import atomic, lock_rows
from .remove import remove_cancelled

#: Conditions of one statement.
_PAGE = 200


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
    conditions = [Q(execution_id=execution) for execution, element in executions if element is None]
    conditions += [
        Q(execution_id=execution, failed_activity_id=element) for execution, element in executions if element
    ]
    conditions += [Q(pk=id) for id in ids]
    if not conditions:
        return
    with atomic(using):
        for start in range(0, len(conditions), _PAGE):
            wanted = Q()
            for condition in conditions[start : start + _PAGE]:
                wanted |= condition
            for table in JOB_TABLES:
                _discard(using, table, Q(process_instance_id__in=list(instances)) & wanted)


def _discard(using: str, table: type[AbstractJob], wanted: Q) -> None:
    rows = table._base_manager.using(using).filter(wanted).order_by("pk")
    if table is not ExternalWorkerJob:
        rows = rows.filter(lock_owner=None)
    if found := list(lock_rows(rows, skip_locked=True)):
        remove_cancelled(using, found)
