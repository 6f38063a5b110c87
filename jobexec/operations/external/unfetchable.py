"""Jobs that a fetch meets and cannot hand out: they are moved to their table, so that they do not block others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

from django.db.models import F

from jobexec import clock, signals
from jobexec.conf import get_settings
from jobexec.encryption import AGAIN
from jobexec.exceptions import DecryptionFailed, DoNotRetry, JobExecError, NotDecryptableYet
from jobexec.models import BlockedJob, DeadLetterJob, ExternalWorkerJob, SuspendedJob

from ..history.incidents import FAILED_JOB, MESSAGE_SIZE_EXCEEDED
from ..notify.signals import announce
from ..reports.failure_groups import count_failures
from ..resources.limits import cut_off_among, not_closed_among
from ..rows.move import move_all
from ..rows.remove import remove_waiting
from ..rows.routing import free_instances, may_hold
from ..rows.suspension_cover import covered_rows
from ..values.fingerprint import fingerprint
from .callbacks import opened
from .validation import too_large


def set_aside(using: str, rows: Sequence[ExternalWorkerJob]) -> list[ExternalWorkerJob]:
    """Return those of the locked rows that a worker may have; the others are moved, or removed if cancelled."""
    left = _without(rows, lambda row: row.cancel_requested, lambda some: _cancel(using, some))
    covered = {row.pk for row in covered_rows(using, left)} if left else set()
    left = _without(left, lambda row: row.pk in covered, lambda some: _suspend(using, some))
    left = _without(left, _too_often, lambda some: _bury(using, some, FAILED_JOB, _missed))
    shut = without_permit(using, left)
    left = _without(left, lambda row: row.pk in shut, _block)
    left = _without(left, _too_large, lambda some: _bury(using, some, MESSAGE_SIZE_EXCEEDED, _size))
    problems = {row.pk: problem for row in left if (problem := _unreadable(row)) is not None}
    if not problems:
        return left
    later = {pk for pk, problem in problems.items() if isinstance(problem, NotDecryptableYet)}
    left = _without(left, lambda row: row.pk in later, lambda some: _put_off(using, some))
    return _without(
        left,
        lambda row: row.pk in problems,
        lambda some: _bury(using, some, FAILED_JOB, lambda row: str(problems[row.pk])),
    )


def _unreadable(row: ExternalWorkerJob) -> JobExecError | None:
    """Why this process cannot decrypt the job."""
    try:
        opened(row)
    except (DecryptionFailed, NotDecryptableYet) as error:
        return error
    return None


def _put_off(using: str, rows: list[ExternalWorkerJob]) -> None:
    """Hide jobs from fetches until another process, or this one with its key, may read them. It costs them no retry.

    Those that were leased stay for workers that ask for a lease.
    """
    held = ExternalWorkerJob.objects.using(using).filter(pk__in=[row.pk for row in rows])
    later = clock.now(using) + AGAIN
    held.update(lock_owner=None, lock_expiration_time=None, available_at=later, revision=F("revision") + 1)
    free_instances(using, may_hold(rows))


def _without(
    rows: Sequence[ExternalWorkerJob],
    meant: Callable[[ExternalWorkerJob], bool],
    act: Callable[[list[ExternalWorkerJob]], None],
) -> list[ExternalWorkerJob]:
    some = [row for row in rows if meant(row)]
    if some:
        act(some)
    return [row for row in rows if row not in some]


def _cancel(using: str, rows: list[ExternalWorkerJob]) -> None:
    remove_waiting(using, rows)


def _suspend(using: str, rows: list[ExternalWorkerJob]) -> None:
    moved = move_all(rows, SuspendedJob, suspended_at=clock.now(using))
    announce(signals.job_suspended, using, SuspendedJob, jobs=moved)


def without_permit(using: str, rows: Sequence[ExternalWorkerJob]) -> set[UUID]:
    """The ids of those whose breaker has opened since they got their permits.

    While trial calls are let through, a job without a worker may be one; whoever gave it back has looked.
    """
    names = {row.pk: row.resource for row in rows if row.resource is not None}
    limited = not_closed_among(using, {*names.values()})
    cut_off = cut_off_among(using, limited)
    missed = {row.pk for row in rows if row.lock_owner is not None}
    return {pk for pk, name in names.items() if name in cut_off or (name in limited and pk in missed)}


def _block(rows: list[ExternalWorkerJob]) -> None:
    """Let jobs wait for new permits; a missed deadline still counts."""
    missed = {row.pk: {"lost_runs": row.lost_runs + 1} for row in rows if row.lock_owner is not None}
    move_all(rows, BlockedJob, missed)


def _too_often(row: ExternalWorkerJob) -> bool:
    """Return whether the missed deadline reaches the limit of deliveries."""
    most = row.handler_configuration.get("max_deliveries") or get_settings().external_max_deliveries
    return bool(most and row.lock_owner is not None and row.lost_runs + 1 >= most)


def _missed(row: ExternalWorkerJob) -> str:
    times = row.lost_runs + 1
    return f"{times} workers missed its deadline, {row.lock_owner!r} being the last (max_deliveries)."


def _too_large(row: ExternalWorkerJob) -> bool:
    """The size was checked on creation; only jobs to which a failure added variables can have grown."""
    return "local" in row.handler_configuration and bool(too_large(row.handler_configuration))


def _size(row: ExternalWorkerJob) -> str:
    return too_large(row.handler_configuration)


def _bury(using: str, rows: list[ExternalWorkerJob], kind: str, message: Callable[[ExternalWorkerJob], str]) -> None:
    texts = {row.pk: message(row) for row in rows}
    alike = fingerprint(rows[0].handler_type, kind, "")  # one fetch is of one type
    each: dict[Any, dict[str, Any]] = {
        row.pk: {
            "exception_message": texts[row.pk],
            "exception_stack": "",
            "fingerprint": alike,
            "lost_runs": row.lost_runs + (row.lock_owner is not None),
        }
        for row in rows
    }
    moved = move_all(rows, DeadLetterJob, each, incident_type=kind, retries=0, died_at=clock.now(using))
    for job in moved:
        announce(signals.job_dead_lettered, using, DeadLetterJob, job=job, error=DoNotRetry(texts[job.pk]))
    count_failures(using, rows, alike, texts[rows[-1].pk])
