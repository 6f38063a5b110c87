"""Delete or cancel job rows, with log entries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from jobexec import signals
from jobexec.models import AbstractJob, DeadLetterJob, ExternalWorkerJob, LogState

from ..history import job_log
from ..history.incidents import delete_incidents
from ..history.task_attempts import CANCELLED, DELETED, write_removed
from ..notify.signals import announce
from ..sql.delete import delete_rows
from .progress import clear_progress
from .routing import free_instances, may_hold, wake_for_permits
from .tallies import count_removal


def remove_deleted(using: str, rows: Sequence[AbstractJob], reasons: Mapping[UUID, str] | None = None) -> None:
    """Delete rows of one table, locked by the caller, log each and close their incidents.

    ``reasons`` holds, by id, the reasons of deletions that no operator has requested.
    """
    why = reasons or {}
    entries = (job_log.entry(row, LogState.DELETED, exception_message=why.get(row.pk, "")) for row in rows)
    job_log.write(using, LogState.DELETED, entries)
    write_removed(using, rows, DELETED, why)
    _delete(using, rows)


def remove_waiting(using: str, rows: Sequence[AbstractJob]) -> None:
    """Delete and log cancelled jobs that are not locked, and send ``job_cancelled`` for each."""
    job_log.write(using, LogState.CANCELLED, (job_log.entry(row, LogState.CANCELLED) for row in rows))
    write_removed(using, rows, CANCELLED)
    remove_cancelled(using, rows)
    for row in rows:
        announce(signals.job_cancelled, using, type(row), jobs=[row])


def remove_cancelled(using: str, rows: Sequence[AbstractJob]) -> None:
    """Delete rows of one table that the caller has locked, and their progress."""
    _delete(using, rows)
    clear_progress(using, [row.pk for row in rows])


def _delete(using: str, rows: Sequence[AbstractJob]) -> None:
    ids = [row.pk for row in rows]
    delete_rows(type(rows[0])._base_manager.using(using).filter(pk__in=ids))
    if isinstance(rows[0], DeadLetterJob):
        delete_incidents(using, ids)
    elif isinstance(rows[0], ExternalWorkerJob):
        free_instances(using, may_hold(rows))
    wake_for_permits(using, rows)
    count_removal(using, rows)
