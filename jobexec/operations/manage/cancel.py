"""Cancel jobs: waiting jobs are removed, running jobs are asked to stop."""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from django.db import connections

from jobexec.models import WAITING_TABLES, AbstractJob, Job

from ..audit import audited
from ..rows.discard import ask_to_stop
from ..rows.remove import remove_waiting
from ..sql.dialect import dialect
from ..targets.for_each import OperationResult, Target, database_of, for_each
from .bulk import cancel_page


@audited
def cancel(target: Target, *, using: str | None = None) -> OperationResult:
    """Cancel waiting or running jobs (Ratchet: cancelJob). To remove dead letters, delete them.

    A waiting job is removed immediately. A job that a node holds gets a flag, which the node sees within a second or
    two, and immediately if it is in this process. If the job has not begun by then, it never will. If it runs, its
    handler sees ``context.cancelled`` and may stop; if the handler succeeds without checking it, the job is done. If it
    fails after that, it is not retried. An external worker is not notified: a completion before its deadline counts,
    and the job is not handed out again.
    """
    database = database_of(target, using)

    def verb(row: AbstractJob) -> str | None:
        if row.locked:
            ask_to_stop(database, [row])
            return None
        remove_waiting(database, [row])
        return None

    return for_each(target, database, verb, *WAITING_TABLES, bulk=cancel_page)


def cancelled_among(using: str, ids: Collection[UUID]) -> list[UUID]:
    """Return those of these jobs that were cancelled while a node held them."""
    connection, spelled = connections[using], dialect(using)
    if not spelled.returns_rows(connection):
        rows = Job.objects.using(using).filter(pk__in=ids, cancel_requested=True)
        return list(rows.values_list("pk", flat=True))
    # Called once a second, with thousands of ids by a node with thousands of async jobs.
    statement = f"SELECT id FROM {Job._meta.db_table} WHERE {spelled.among('ids')} AND cancel_requested"
    with spelled.cursor(connection) as cursor:
        cursor.execute(statement, {"ids": spelled.id_list(ids)})
        return [id if isinstance(id, UUID) else UUID(id) for (id,) in cursor.fetchall()]
