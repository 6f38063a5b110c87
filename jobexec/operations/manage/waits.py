"""End the waits of jobs for messages."""

from __future__ import annotations

from django.utils.translation import gettext_noop

from jobexec import clock
from jobexec.models import AbstractJob, BlockedJob, SuspendedJob

from ..audit import audited
from ..notify.wake import wake_on_commit
from ..targets.for_each import OperationResult, Target, database_of, for_each

_NOTHING = gettext_noop("it does not wait for a message")


@audited
def end_wait(target: Target, *, using: str | None = None) -> OperationResult:
    """Let jobs that wait for a message go on without one, as if their wait had timed out.

    They run soon, or wait for their date or their resource. A suspended job stays suspended.
    """
    database = database_of(target, using)

    def verb(row: AbstractJob) -> str | None:
        if row.waits_for is None:
            return _NOTHING
        now = clock.now(database)
        look = {"next_look": now} if isinstance(row, BlockedJob) else {}
        type(row)._base_manager.using(database).filter(pk=row.pk).update(waits_until=now, **look)
        wake_on_commit(database, messages=True)
        return None

    return for_each(target, database, verb, BlockedJob, SuspendedJob)
