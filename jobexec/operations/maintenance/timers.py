"""Make due timers executable."""

from __future__ import annotations

from datetime import datetime

from django.db.models import QuerySet

from jobexec import clock
from jobexec.models import Job, SuspendedJob, TimerJob

from ..notify.broker import announce_ids
from ..notify.wake import wake_on_commit
from ..rows import move_statement
from ..rows.bury_unreadable import UNREADABLE, bury_unreadable
from ..rows.move import move_all
from ..rows.suspension_cover import Suspensions, covered_rows
from ..sql.locks import atomic, lock_rows


def trigger_due_timers(using: str, limit: int) -> int:
    """Move up to ``limit`` due timers to the executable jobs, or to the suspended ones if a suspension covers them.

    Several nodes may do this at once: each skips rows that another is just moving. Returns the number of moved rows; if
    it is ``limit``, there may be more. Rows that cannot be read or moved become dead letters; an unreadable row that
    was moved without being read is found by acquisition.
    """
    try:
        return _trigger(using, limit)
    except UNREADABLE:
        if not bury_unreadable(using, TimerJob):
            raise
        return limit


def _trigger(using: str, limit: int) -> int:
    with atomic(using):
        due = TimerJob.objects.using(using).filter(due_date__lte=clock.now(using)).order_by("due_date")
        page = lock_rows(due, skip_locked=True)[:limit]
        return _move_unread(using, page) if move_statement.is_possible(using) else _move(using, list(page))


def _move(using: str, rows: list[TimerJob]) -> int:
    """Move locked rows; the form that defines what moving them means."""
    if not rows:
        return 0
    covered = covered_rows(using, rows)
    suspended = {row.pk for row in covered}
    moved = move_all([row for row in rows if row.pk not in suspended], Job)
    if moved:
        wake_on_commit(using)
        announce_ids(using, (row.pk for row in moved))
    return len(moved) + len(move_all(covered, SuspendedJob, suspended_at=clock.now(using)))


def _move_unread(using: str, page: QuerySet[TimerJob]) -> int:
    """Move rows in few statements without reading them, unless a suspension may cover some of them."""
    found = list(page.values_list("pk", "suspend_requested"))
    ids = [pk for pk, _ in found]
    if any(requested for _, requested in found) or (found and Suspensions.of(using, ids)):
        return _move(using, list(TimerJob.objects.using(using).filter(pk__in=ids)))
    if found:
        move_statement.transfer(using, TimerJob, Job, ids)
        wake_on_commit(using)
        announce_ids(using, ids)
    return len(found)


def next_due_date(using: str) -> datetime | None:
    """Return when the earliest timer is due; None without timers. Raises ValueError for an unreadable date."""
    timers = TimerJob.objects.using(using).filter(due_date__isnull=False).order_by("due_date")
    dates = list(timers.values_list("due_date", flat=True)[:1])
    if None in dates:  # SQLite accepts any text, and Django reads it as None
        raise ValueError("the due date of a timer cannot be read")
    return dates[0] if dates else None
