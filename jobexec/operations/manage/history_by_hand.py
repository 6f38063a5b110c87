"""Operators' changes to history that has not been written yet."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from uuid import UUID

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from jobexec import clock
from jobexec.models import HistoryJob, LogState

from ..audit import audited, note_jobs
from ..history import job_log
from ..notify.wake import wake_on_commit
from ..sql.delete import delete_rows
from ..sql.locks import atomic, lock_rows
from ..targets.for_each import OperationResult, database_of

_WRITTEN = gettext_noop("it is being written right now")
_GONE = gettext_noop("the job no longer exists")


@audited
def write_history_now(ids: Iterable[UUID], *, using: str | None = None) -> OperationResult:
    """Make history jobs due immediately, including waiting retries; their retries stay."""
    database = database_of(None, using)

    def verb(row: HistoryJob) -> None:
        HistoryJob.objects.using(database).filter(pk=row.pk).update(due_date=clock.now(database))
        wake_on_commit(database, history=True)

    return _each(ids, database, verb)


@audited
def delete_history_jobs(ids: Iterable[UUID], *, using: str | None = None) -> OperationResult:
    """Delete history jobs; their content is never written. The job log records the deletion."""
    database = database_of(None, using)

    def verb(row: HistoryJob) -> None:
        job_log.write(database, LogState.DELETED, [job_log.entry(row, LogState.DELETED)])
        delete_rows(HistoryJob.objects.using(database).filter(pk=row.pk))

    return _each(ids, database, verb)


def _each(ids: Iterable[UUID], using: str, verb: Callable[[HistoryJob], None]) -> OperationResult:
    """Call ``verb`` on each row in its own transaction; skip rows that a history loop holds, without waiting."""
    result = OperationResult()
    rows = HistoryJob.objects.using(using).defer("handler_configuration", "exception_stack")
    for pk in list(ids):
        with atomic(using):
            row = lock_rows(rows.filter(pk=pk), skip_locked=True).first()
            if row is not None:
                verb(row)
                note_jobs(using, HistoryJob, [pk], [row.tenant_id])
                result.changed.append(pk)
            else:
                there = rows.filter(pk=pk).exists()
                result.skipped[pk] = _(_WRITTEN if there else _GONE)
    return result
