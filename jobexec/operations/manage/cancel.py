"""Cancelling jobs: those that wait are removed, those that run are asked to stop."""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from django.db import connections

from jobexec import signals
from jobexec.models import AbstractJob, ExternalWorkerJob, Job, SuspendedJob, TimerJob

from ..audit import audited
from ..notify.signals import announce
from ..rows.remove import remove_waiting
from ..sql.dialect import dialect
from ..targets.for_each import OperationResult, Target, database_of, for_each
from .bulk import cancel_page


@audited
def cancel(target: Target, *, using: str | None = None) -> OperationResult:
    """Cancel jobs that wait or run (Ratchet: cancelJob). Dead letters are deleted instead.

    A job that waits is removed at once. One that a node has in hand gets a flag, which the node sees within a second
    or two, and at once if it is in this process: if the job has not begun by then, it never will; if it runs, its
    handler sees ``context.cancelled`` and stops, or not: a handler that ends well without having looked is done.
    However it fails after that, it is not tried again. A worker outside is not told: what it completes before its
    deadline counts, and nobody is given the job after that.
    """
    database = database_of(target, using)

    def verb(row: AbstractJob) -> str | None:
        if row.locked:
            # Without raising ``revision``: the outcome of a job that ends well all the same must count.
            type(row)._base_manager.using(database).filter(pk=row.pk).update(cancel_requested=True)
            announce(signals.job_cancel_requested, database, type(row), job=row)
            return None
        remove_waiting(database, [row])
        return None

    return for_each(target, database, verb, Job, TimerJob, SuspendedJob, ExternalWorkerJob, bulk=cancel_page)


def cancelled_among(using: str, ids: Collection[UUID]) -> list[UUID]:
    """Those of these jobs that somebody has cancelled while they were in hand."""
    spelled, rows = dialect(using), Job.objects.using(using)
    if not spelled.returns_rows(connections[using]):
        return list(rows.filter(pk__in=ids, cancel_requested=True).values_list("pk", flat=True))
    # Asked once a second, by a node with thousands of async jobs with thousands of ids.
    statement = f"SELECT id FROM {Job._meta.db_table} WHERE {spelled.among('ids')} AND cancel_requested"
    return [row.pk for row in rows.raw(statement, {"ids": spelled.id_list(ids)})]
