"""External jobs among all others: where they wait, when workers may fetch them, what a hold leaves behind."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connections
from django.db.models import Q
from django.utils.translation import gettext as _

from jobexec import clock
from jobexec.models import AbstractJob, ExclusiveLock, ExternalWorkerJob, Job, TimerJob

from ..notify.broker import announce_ids
from ..notify.wake import wake_on_commit
from ..notify.wake_workers import wake_workers_on_commit
from ..sql.insert_select import Sql
from ..sql.locks import delete_rows
from .exclusive import wake_for_siblings
from .external_exclusive import PREFIX, owner_of


def is_external(row: AbstractJob) -> bool:
    """Whether workers outside of Django do the job, wherever its row is.

    Not by its type: that is where a job came from, and what follows a job of workers keeps it.
    """
    return isinstance(row, ExternalWorkerJob) or row.job_key is not None


def home(row: AbstractJob, *, later: bool) -> type[AbstractJob]:
    """The table in which a job waits that nothing holds up; ``later``: its due date lies ahead."""
    if is_external(row):
        return ExternalWorkerJob
    return TimerJob if later else Job


def split(rows: Iterable[AbstractJob]) -> tuple[list[AbstractJob], list[AbstractJob]]:
    """The jobs of executors, and those of workers outside."""
    ours: list[AbstractJob] = []
    theirs: list[AbstractJob] = []
    for row in rows:
        (theirs if is_external(row) else ours).append(row)
    return ours, theirs


def available_at(using: str, due_date: datetime | None) -> datetime | None:
    """When a worker may fetch a job that nobody holds; None is at once."""
    return due_date if due_date is not None and due_date > clock.now(using) else None


def available_at_sql(using: str) -> Sql:
    """The same over the columns of ``source``."""
    now = connections[using].ops.adapt_datetimefield_value(clock.now(using))
    return Sql("CASE WHEN source.due_date > %s THEN source.due_date END", (now,))


def free(table: type[AbstractJob], now: datetime) -> Q:
    """The rows of a table that nobody holds. Whose deadline is over is free, though it still says who had it."""
    condition = Q(lock_owner=None)
    if table is ExternalWorkerJob:
        condition |= Q(lock_expiration_time=None) | Q(lock_expiration_time__lte=now)
    return condition


def held(table: type[AbstractJob], now: datetime) -> Q:
    """The rows of a table that a node or a worker holds."""
    condition = Q(lock_owner__isnull=False)
    return condition & Q(lock_expiration_time__gt=now) if table is ExternalWorkerJob else condition


def wake_for(using: str, rows: Iterable[AbstractJob], *, timers: bool = False) -> None:
    """Wake whoever does these jobs, which may run now, or as timers later: workers outside, or executors."""
    ours, theirs = split(rows)
    wake_workers_on_commit(using, {row.handler_type for row in theirs})
    if ours:
        wake_on_commit(using, timers=timers)
        if not timers:
            announce_ids(using, (row.pk for row in ours))


def held_by(row: AbstractJob) -> str:
    """Who has a locked job in hand, as the reason why something is not done to it."""
    if isinstance(row, ExternalWorkerJob):
        values = {"worker": row.lock_owner, "until": row.lock_expiration_time}
        return _("the worker %(worker)s has it until %(until)s") % values
    return _("it is running or queued on %(owner)s") % {"owner": row.lock_owner}


def job_of_instance(lock_owner: str) -> UUID | None:
    """The job for which a process instance is held; None if executors hold it."""
    try:
        return UUID(lock_owner.removeprefix(PREFIX)) if lock_owner.startswith(PREFIX) else None
    except ValueError:
        return None


def free_instances(using: str, ids: Collection[UUID]) -> None:
    """Free the process instances that are held for these external jobs, whose rows the caller has locked.

    One look by the index of the owners, and nothing more for jobs that hold none. One by one in sorted order, as they
    are taken, so that nobody waits in a circle.
    """
    if not ids:
        return
    locks = ExclusiveLock.objects.using(using)
    found = locks.filter(lock_owner__in=[owner_of(id) for id in ids])
    freed = sorted(found.values_list("process_instance_id", "lock_owner"))
    for instance, owner in freed:
        delete_rows(locks.filter(process_instance_id=instance, lock_owner=owner))
    wake_for_siblings(using, [instance for instance, _ in freed])


def may_hold(rows: Iterable[AbstractJob]) -> list[UUID]:
    """Those of these external jobs for which a process instance may be held."""
    return [row.pk for row in rows if row.serial_key]


def put_off(using: str, due_date: datetime | None) -> dict[str, Any]:
    """What a due date changes in rows that nobody holds. Whoever let the deadline pass has the job no more: what was
    held for it (:func:`free_instances`) would be held until then."""
    available = available_at(using, due_date)
    return {"due_date": due_date, "available_at": available, "lock_owner": None, "lock_expiration_time": None}


def is_available(row: ExternalWorkerJob, now: datetime) -> bool:
    """Whether a worker may fetch it now, for all that its own dates say."""
    return row.available_at is None or row.available_at <= now


def given_back() -> dict[str, Any]:
    """What a row says of its holder when there is none any more."""
    return {"lock_owner": None, "lock_expiration_time": None, "lease_token": ""}
