"""A job that a worker outside had and has no more: back to where others can fetch it, or to where it was to go."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from jobexec import clock, signals
from jobexec.models import ExternalWorkerJob, LogState, SuspendedJob

from ..notify.signals import announce
from ..notify.wake_workers import wake_workers_on_commit
from ..rows.move import move
from ..rows.remove import remove_cancelled
from ..rows.routing import free_instances, given_back, may_hold
from ..rows.suspension_cover import covered_rows
from . import log
from .types import Caller


def give_back(
    using: str, row: ExternalWorkerJob, *, due_date: datetime | None, lease_token: str = "", **changes: Any
) -> ExternalWorkerJob | SuspendedJob | None:
    """Let others fetch a job whose row the caller has locked, from ``due_date`` on (None: at once).

    A job that was to be suspended when its worker has ended with it goes to the suspended jobs, and keeps its date
    there. Its process instance is freed, waiting workers are told, also of a date that lies ahead: they wait until
    then and not longer. With a ``lease_token`` only workers that ask for a lease get it. Returns the row where it now
    is; None if somebody else changed it.
    """
    if covered_rows(using, [row]):
        return move(row, SuspendedJob, **changes, due_date=due_date, suspended_at=clock.now(using))
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
    """The end of a job that somebody cancelled while a worker had it, and that the worker has not completed."""
    log.write(using, LogState.CANCELLED, row, caller, worker, exception_message=exception_message)
    remove_cancelled(using, [row])
    announce(signals.job_cancelled, using, ExternalWorkerJob, jobs=[row])
