"""Fire due schedules: create one job for each of their times, on whichever node comes first."""

from __future__ import annotations

import logging
from collections.abc import Collection
from datetime import datetime
from typing import Any, NamedTuple

from django.db import connections, transaction
from django.db.models import F, QuerySet

from jobexec import clock
from jobexec.conf import get_settings
from jobexec.models import Schedule, ScheduleFiring

from ..rows.bury_unreadable import UNREADABLE
from ..sql.locks import lock_rows, waiting_at_most
from ..sql.session import is_lost, is_of_connection
from .jobs import ScheduledJobs
from .times import DueTimes, due_times

logger = logging.getLogger("jobexec.schedules")

#: The maximum number of times of a schedule that one transaction fires.
TIMES = 200

#: Seconds that a firing waits for another transaction's lock; timers are delayed meanwhile.
PATIENCE = 2


class Fired(NamedTuple):
    """The result of a round: the number of new jobs, whether more is due, and errors by schedule id."""

    jobs: int
    more: bool
    failed: dict[int, Exception]


def fire_due(using: str, jobs: ScheduledJobs, limit: int, *, but: Collection[int] = ()) -> Fired:
    """Fire up to ``limit`` due schedules whose handlers ``jobs`` knows, except the ids in ``but``.

    Each is fired in its own transaction, which creates the jobs, records the times, and moves ``next_time``. Several
    nodes may do this at the same time: each skips the rows that another node has locked. A schedule that cannot be
    fired (its row cannot be read, its handler refuses the arguments, another open transaction holds its unique key for
    longer than PATIENCE) stays unchanged and does not stop the others; errors of a lost connection are raised.
    """
    ids = list(_enabled(using, jobs, but).filter(next_time__lte=clock.now(using)).order_by("next_time", "pk")[:limit])
    made, more, failed = 0, len(ids) == limit, dict[int, Exception]()
    for id in ids:
        try:
            fired, again = _fire(using, jobs, id)
        except Exception as error:  # the row may contain anything, and the project's handlers may raise anything
            # The error is checked first: Django may have reconnected since.
            if is_lost(error) or (is_of_connection(error) and not connections[using].is_usable()):
                raise
            failed[id] = error
        else:
            made, more = made + fired, more or again
    return Fired(made, more, failed)


def _enabled(using: str, jobs: ScheduledJobs, but: Collection[int]) -> QuerySet[Schedule, int]:
    rows = Schedule.objects.using(using).filter(enabled=True, handler_type__in=sorted(jobs.names()))
    return rows.exclude(pk__in=sorted(but)).values_list("pk", flat=True)


def _fire(using: str, jobs: ScheduledJobs, id: int) -> tuple[int, bool]:
    with transaction.atomic(using=using), waiting_at_most(using, PATIENCE):
        now = clock.now(using)
        due = Schedule.objects.using(using).filter(pk=id, enabled=True, next_time__lte=now)
        row = lock_rows(due, skip_locked=True, no_key=True).first()
        if row is None:  # another node has it, or had it
            return 0, False
        threshold = get_settings().misfire_threshold
        times = due_times(row, now, threshold, TIMES)
        if row.next_time is not None and row.next_time < now - threshold:
            text = "The schedule %s on %s should have fired at %s; its misfire policy applies to missed times: %s"
            logger.warning(text, row.name, using, row.next_time, row.misfire)
        made = _make(using, jobs, row, times)
        changes: dict[str, Any] = {"next_time": times.next_time, "fired": F("fired") + made}
        if times.fire:
            changes["last_time"] = times.fire[-1]
        Schedule.objects.using(using).filter(pk=id).update(**changes)
    return made, times.next_time is not None and times.next_time <= now


def _make(using: str, jobs: ScheduledJobs, row: Schedule, times: DueTimes) -> int:
    """Create the jobs of these times, except those already fired; return how many. Requires the schedule's lock."""
    firings = ScheduleFiring.objects.using(using)
    noted = firings.filter(schedule_id=row.pk, fire_time__in=times.fire).values_list("fire_time", flat=True)
    fire = sorted(set(times.fire).difference(noted))
    made = [jobs.enqueue(using, row.handler_type, row.handler_configuration, row.options, time) for time in fire]
    now = clock.now(using)
    firings.bulk_create(
        ScheduleFiring(schedule_id=row.pk, fire_time=time, job_id=job.pk, create_time=now)
        for time, job in zip(fire, made, strict=True)
    )
    return sum(not getattr(job, "is_duplicate", False) for job in made)


def next_schedule_time(using: str, jobs: ScheduledJobs, *, but: Collection[int] = ()) -> datetime | None:
    """When the first schedule is due whose handler ``jobs`` knows, except the ids in ``but``; None if there is none."""
    rows = _enabled(using, jobs, but).filter(next_time__isnull=False).order_by("next_time").values_list("next_time")
    try:
        first = next(iter(rows[:1]), None)
        if first is None or first[0] is not None:
            return first and first[0]
    except UNREADABLE:
        pass
    return _first_readable(using, jobs, but)


def _first_readable(using: str, jobs: ScheduledJobs, but: Collection[int]) -> datetime | None:
    """The same if a ``next_time`` is unreadable, as SQLite stores any text: ignore that schedule, not the others."""
    times: list[datetime] = []
    for id in _enabled(using, jobs, but):
        try:
            found = Schedule.objects.using(using).filter(pk=id).values_list("next_time", flat=True).first()
        except UNREADABLE:
            logger.error("The next time of the schedule with the id %s on %s cannot be read", id, using)
        else:
            times += [] if found is None else [found]
    return min(times, default=None)
