"""External jobs among all others: their table, their availability to workers, and the traces of a worker's lock."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connections
from django.db.models import Q
from django.utils.translation import gettext as _

from jobexec import clock
from jobexec.identifiers import as_id
from jobexec.models import AbstractJob, BlockedJob, ExclusiveLock, ExternalWorkerJob, Job, SuspendedJob, TimerJob

from ..notify.broker import announce_ids
from ..notify.wake import wake_for_resources, wake_on_commit
from ..notify.wake_workers import wake_workers_on_commit
from ..sql.delete import delete_rows
from ..sql.insert_select import Sql
from .exclusive import wake_for_siblings
from .external_exclusive import PREFIX, owner_of


def is_external(row: AbstractJob) -> bool:
    """Whether external workers do the job, in whichever table its row is.

    The type does not tell: it is the job's origin, and the follow-up of an external job keeps it.
    """
    return isinstance(row, ExternalWorkerJob) or row.job_key is not None


def table_for(row: AbstractJob, *, later: bool) -> type[AbstractJob]:
    """Return the table in which an unsuspended job waits; ``later``: its due date lies in the future.

    External jobs wait for a date in their own table, unless they would hold a permit of their resource there.
    """
    if row.waits_for is not None:
        return BlockedJob  # the message comes before the date
    if row.resource is None and is_external(row):
        return ExternalWorkerJob
    if later:
        return TimerJob
    return Job if row.resource is None else BlockedJob


def split(rows: Iterable[AbstractJob]) -> tuple[list[AbstractJob], list[AbstractJob]]:
    """Split jobs into those of executors and those of external workers."""
    ours: list[AbstractJob] = []
    theirs: list[AbstractJob] = []
    for row in rows:
        (theirs if is_external(row) else ours).append(row)
    return ours, theirs


def available_at(using: str, due_date: datetime | None) -> datetime | None:
    """Return when a worker may fetch an unlocked job; None means at once."""
    return due_date if due_date is not None and due_date > clock.now(using) else None


def available_at_sql(using: str) -> Sql:
    """Return :func:`available_at` as SQL over the columns of ``source``."""
    now = connections[using].ops.adapt_datetimefield_value(clock.now(using))
    return Sql("CASE WHEN source.due_date > %s THEN source.due_date END", (now,))


def next_look(using: str, waits_for: str | None) -> datetime | None:
    """Return when to look at a row that comes to BlockedJob: at once if it waits for a message, which may be there."""
    return None if waits_for is None else clock.now(using)


def next_look_sql(using: str) -> Sql:
    """Return :func:`next_look` as SQL over the columns of ``source``."""
    now = connections[using].ops.adapt_datetimefield_value(clock.now(using))
    return Sql("CASE WHEN source.waits_for IS NOT NULL THEN %s END", (now,))


def free(table: type[AbstractJob], now: datetime) -> Q:
    """Match unlocked rows of a table. An external job is free after its deadline, though it still names its worker."""
    condition = Q(lock_owner=None)
    if table is ExternalWorkerJob:
        condition |= Q(lock_expiration_time=None) | Q(lock_expiration_time__lte=now)
    return condition


def held(table: type[AbstractJob], now: datetime) -> Q:
    """Match rows of a table that a node or a worker holds."""
    condition = Q(lock_owner__isnull=False)
    return condition & Q(lock_expiration_time__gt=now) if table is ExternalWorkerJob else condition


def wake_for(using: str, rows: Sequence[AbstractJob], *, timers: bool = False) -> None:
    """Wake the external workers or executors for these jobs, which may run now, or later as timers."""
    found = [row for row in rows if row.waits_for is None]
    if len(found) < len(rows):
        wake_on_commit(using, messages=True)
    if not timers:
        wake_for_resources(using, {row.resource for row in found})
    ours, theirs = split(row for row in found if timers or row.resource is None)
    wake_workers_on_commit(using, {row.handler_type for row in theirs if row.resource is None})
    ours += [row for row in theirs if row.resource is not None]
    if ours:
        wake_on_commit(using, timers=timers)
        if not timers:
            announce_ids(using, (row.pk for row in ours))


def wake_for_permits(using: str, rows: Iterable[AbstractJob]) -> None:
    """Wake the promotion of the resources whose permits these rows held before they left their table."""
    wake_for_resources(using, {row.resource for row in rows if isinstance(row, Job | ExternalWorkerJob)})


def held_by(row: AbstractJob) -> str:
    """Name the holder of a locked job, as the reason for refusing an operation."""
    if isinstance(row, ExternalWorkerJob):
        values = {"worker": row.lock_owner, "until": row.lock_expiration_time}
        return _("the worker %(worker)s holds it until %(until)s") % values
    return _("it is running or queued on %(owner)s") % {"owner": row.lock_owner}


def job_of_instance(lock_owner: str) -> UUID | None:
    """Return the external job for which a process instance is locked; None if an executor holds it."""
    return as_id(lock_owner.removeprefix(PREFIX)) if lock_owner.startswith(PREFIX) else None


def free_instances(using: str, ids: Collection[UUID]) -> None:
    """Unlock the process instances that are held for these external jobs, whose rows the caller has locked.

    For jobs that hold none, this is one query by the index on owners. Instances are unlocked one by one in sorted
    order, as they are locked, to avoid deadlocks.
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
    """Return the ids of those external jobs for which a process instance may be locked."""
    return [row.pk for row in rows if row.serial_key]


def put_off(using: str, due_date: datetime | None) -> dict[str, Any]:
    """Return the columns that a new due date changes in unlocked rows. A worker that let its deadline pass loses the
    job: the lock of its process instance (:func:`free_instances`) would otherwise be held until the due date."""
    available = available_at(using, due_date)
    return {"due_date": due_date, "available_at": available, "lock_owner": None, "lock_expiration_time": None}


def is_available(row: ExternalWorkerJob, now: datetime) -> bool:
    """Whether a worker may fetch the job now, judging only by its dates."""
    return row.available_at is None or row.available_at <= now


#: The key in the configuration of a job that waits elsewhere, and that only workers with a lease may have again.
LEASE = "lease_token"


#: The tables from which a job of workers comes back to them without an operator's decision.
COMES_BACK = (BlockedJob, SuspendedJob, TimerJob)


def keep_lease(configuration: Mapping[str, Any], token: str) -> dict[str, Any]:
    """Return the configuration of a job that leaves the workers' table with its demand for a lease."""
    return {**configuration, LEASE: token}


def lease_kept(configuration: Any) -> dict[str, Any]:
    """Return the columns of a job that comes back to the workers' table, if :func:`keep_lease` kept its demand."""
    if not isinstance(configuration, dict) or LEASE not in configuration:
        return {}
    rest = {name: value for name, value in configuration.items() if name != LEASE}
    return {"lease_token": configuration[LEASE], "handler_configuration": rest}


def given_back() -> dict[str, Any]:
    """Return the columns of a row that no longer has a holder."""
    return {"lock_owner": None, "lock_expiration_time": None, "lease_token": ""}
