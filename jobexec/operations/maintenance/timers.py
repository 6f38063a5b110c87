"""Make due timers executable."""

from __future__ import annotations

from datetime import datetime

from jobexec import clock
from jobexec.models import TimerJob

from ..rows.bury_unreadable import UNREADABLE, bury_unreadable
from ..rows.start_due import COLUMNS, start_due
from ..sql.locks import atomic, lock_rows


def trigger_due_timers(using: str, limit: int) -> int:
    """Move up to ``limit`` due timers on: they may run, or wait for their resource, or a suspension covers them.

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
        return start_due(using, TimerJob, list(page.values_list(*COLUMNS)), permitted=False)


def next_due_date(using: str) -> datetime | None:
    """Return when the earliest timer is due; None without timers. Raises ValueError for an unreadable date."""
    timers = TimerJob.objects.using(using).filter(due_date__isnull=False).order_by("due_date")
    dates = list(timers.values_list("due_date", flat=True)[:1])
    if None in dates:  # SQLite accepts any text, and Django reads it as None
        raise ValueError("the due date of a timer cannot be read")
    return dates[0] if dates else None
