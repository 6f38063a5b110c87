"""Remove jobs that a process has no use for any more."""

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
    """Delete jobs of process instances, in whatever table they are, without a line in the log; close their incidents.

    ``executions`` names them by ``execution_id`` and the element (``failed_activity_id``), None for all elements;
    ``ids`` by themselves. A job that a thread has, or that another transaction holds, stays; what runs it must find
    out by itself that nobody waits for it. A job of an external worker goes even while the worker has it. Waits for
    nothing.
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
