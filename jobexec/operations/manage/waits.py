"""End the waits of jobs for messages."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from uuid import UUID

from django.utils.translation import gettext_noop

from jobexec import clock
from jobexec.models import AbstractJob, BlockedJob, SuspendedJob

from ..audit import audited
from ..notify.wake import wake_on_commit
from ..targets.for_each import OperationResult, Target, database_of, for_each
from .bulk import lock_page

_NOTHING = gettext_noop("it does not wait for a message")


@audited
def end_wait(target: Target, *, using: str | None = None) -> OperationResult:
    """Let jobs that wait for a message continue without it, as if their wait had timed out.

    They run soon, or wait for their date or their resource. A suspended job stays suspended.
    """
    database = database_of(target, using)

    def verb(row: AbstractJob) -> str | None:
        return None if _end(database, type(row), [row]) else _NOTHING

    return for_each(target, database, verb, BlockedJob, SuspendedJob, bulk=_page)


def _page(using: str, table: type[AbstractJob], ids: Collection[UUID]) -> Iterable[UUID]:
    """The fast form: a page in one statement; rows that do not wait are left to the verb."""
    return _end(using, table, lock_page(using, table, ids))


def _end(using: str, table: type[AbstractJob], rows: Iterable[AbstractJob]) -> list[UUID]:
    """End the waits of locked rows of one table; return the ids of those that wait."""
    now, waiting = clock.now(using), [row.pk for row in rows if row.waits_for is not None]
    if waiting:
        look = {"next_look": now} if table is BlockedJob else {}
        table._base_manager.using(using).filter(pk__in=waiting).update(waits_until=now, **look)
        wake_on_commit(using, messages=True)
    return waiting
