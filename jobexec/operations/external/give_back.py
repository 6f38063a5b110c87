"""Take a job from its external worker: it becomes available again, is suspended, or is removed if cancelled."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from jobexec import clock, signals
from jobexec.models import BlockedJob, ExternalWorkerJob, LogState, SuspendedJob, TimerJob

from ..notify.signals import announce
from ..notify.wake import wake_on_commit
from ..notify.wake_workers import wake_workers_on_commit
from ..resources.limits import not_closed_among
from ..rows.move import move
from ..rows.remove import remove_cancelled
from ..rows.routing import free_instances, given_back, may_hold
from ..rows.suspension_cover import covered_rows
from . import log
from .types import Caller


def give_back(
    using: str, row: ExternalWorkerJob, *, due_date: datetime | None, lease_token: str = "", **changes: Any
) -> ExternalWorkerJob | BlockedJob | SuspendedJob | TimerJob | None:
    """Make a job available again whose row the caller has locked, from ``due_date`` on (None: immediately).

    A job with a pending suspension goes to the suspended jobs, and keeps its date there. One whose resource has a
    breaker that is not closed waits for a new permit. Its process instance is freed and waiting workers are woken, also
    for a date in the future, so that they wait until then and no longer. With a ``lease_token``, only workers that ask
    for a lease get it. Returns the row in its new place; None if another process changed it.
    """
    row.lease_token = lease_token
    if covered_rows(using, [row]):
        return move(row, SuspendedJob, **changes, due_date=due_date, suspended_at=clock.now(using))
    if row.resource is not None and due_date is not None:  # it must not hold its permit until then
        timer = move(row, TimerJob, **changes, due_date=due_date)
        wake_on_commit(using, timers=True)
        return timer
    if row.resource is not None and not_closed_among(using, [row.resource]):
        return move(row, BlockedJob, **changes)
    changes |= {**given_back(), "due_date": due_date, "available_at": due_date, "lease_token": lease_token}
    changes["revision"] = row.revision + 1
    same = ExternalWorkerJob.objects.using(using).filter(pk=row.pk, revision=row.revision)
    if not same.update(**changes):
        return None
    for name, value in changes.items():
        setattr(row, name, value)
    free_instances(using, may_hold([row]))
    wake_workers_on_commit(using, [row.handler_type])
    return row


def remove_cancelled_job(
    using: str, row: ExternalWorkerJob, caller: Caller, worker: str | None, *, exception_message: str = ""
) -> None:
    """Remove a job that was cancelled while a worker held it, and that the worker has not completed."""
    log.write(using, LogState.CANCELLED, row, caller, worker, exception_message=exception_message)
    remove_cancelled(using, [row])
    announce(signals.job_cancelled, using, ExternalWorkerJob, jobs=[row])
