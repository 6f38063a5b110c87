"""The end of a run that did not succeed: retry, dead letter or cancelled, decided here and nowhere else."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from jobexec import clock
from jobexec.conf import get_settings
from jobexec.exceptions import DoNotRetry, InvalidRetryPlan
from jobexec.models import AbstractJob, DeadLetterJob, Job, LogState, SuspendedJob, TimerJob
from jobexec.retry import RetryPlan, default_plan

from . import history
from .cancel import remove_cancelled
from .errors import storable
from .exclusive import unlock_instances
from .locking import atomic, lock_rows
from .move import move
from .run import Run, timing
from .suspensions import covered_rows
from .work import AcquiredJob

logger = logging.getLogger("jobexec.settle")

MESSAGE_LENGTH = 4000
STACK_LENGTH = 100_000


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a run did not succeed.

    ``kind`` says what it costs: ``error`` one retry; ``fatal`` all of them (a do-not-retry error, a row that cannot
    be read); ``conflict`` none, up to the cap MAX_CONFLICTS; ``unknown`` none until UNKNOWN_HANDLER_TIMEOUT has passed
    since a node first did not know the handler; ``cancelled`` is the end, without a failure. ``retry_at`` overrides the
    due date of the retry plan. ``keeps_instance``: the handler still runs, so its process instance stays locked.
    """

    message: str
    stack: str = ""
    kind: str = "error"
    retry_at: datetime | None = None
    plan: RetryPlan | None = None
    error: BaseException | None = None
    keeps_instance: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of a job after a failure: a due date, or None for a dead letter, and what its row then says."""

    due_date: datetime | None
    changes: dict[str, Any]


def fail_job(using: str, job: AcquiredJob, failure: Failure, run: Run) -> AbstractJob | None:
    """Record a failed run and move the job on: to a timer, to the suspended jobs, or to the dead letters.

    Returns the job where it now is (the Job row itself if it was cancelled and is gone), or None if it was no longer
    ours. The process instance's lock goes with its last sibling: a failed job that waits for its retry does not block
    the others.
    """
    with atomic(using):
        row = lock_rows(Job.objects.using(using).filter(pk=job.id, lock_owner=job.lock_owner)).first()
        if row is None or row.revision != job.revision:
            return None
        moved = settle_failure(row, failure, run)
        if not failure.keeps_instance:
            unlock_instances(using, job.lock_owner, {job.serial_key} - {""})
    return moved


def settle_failure(row: Job, failure: Failure, run: Run) -> AbstractJob | None:
    """Move a row that the caller has locked to where the failure sends it, and write the log.

    A job that was cancelled while it ran does not go on, however it ended.
    """
    using = row._state.db or "default"
    if failure.kind == "cancelled" or row.cancel_requested:
        return _cancelled(row, failure, run)
    now = clock.now(using)
    verdict = decide(row, failure, now)
    changes = {"due_date": verdict.due_date} | verdict.changes
    moved: AbstractJob | None
    if verdict.due_date is None:
        moved = move(row, DeadLetterJob, **changes | {"due_date": row.due_date, "died_at": now})
    elif covered_rows(using, [row]):
        moved = move(row, SuspendedJob, **changes, suspended_at=now)
    else:
        moved = move(row, TimerJob, **changes)
    if moved is not None and (failure.kind != "unknown" or verdict.due_date is None):
        _write_failure(row, moved, failure, run)
    return moved


def _cancelled(row: Job, failure: Failure, run: Run) -> Job:
    using = row._state.db or "default"
    message = "" if failure.kind == "cancelled" else storable(failure.message)[:MESSAGE_LENGTH]
    values = {"attempt": row.attempts + 1, "exception_message": message, **timing(row, run)}
    history.write(using, LogState.CANCELLED, [history.entry(row, LogState.CANCELLED, **values)])
    remove_cancelled(using, row)
    return row


def _write_failure(row: AbstractJob, moved: AbstractJob, failure: Failure, run: Run) -> None:
    using = row._state.db or "default"
    values: dict[str, Any] = {"exception_message": moved.exception_message, "exception_stack": moved.exception_stack}
    # When it was due is in the old row; the new one says when it is due again.
    values |= {"due_date": row.due_date, **timing(row, run)}
    history.write(using, LogState.FAILED, [history.entry(moved, LogState.FAILED, **values)])


def decide(row: AbstractJob, failure: Failure, now: datetime) -> Verdict:
    """What a failure costs this job and when it runs again; pure.

    ``retries`` counts attempts left, ``attempts`` attempts made, which picks the interval of the retry plan. A run
    with a recorded outcome proves that the job does not kill its process: ``lost_runs`` starts anew.
    """
    settings = get_settings()
    message = storable(failure.message)[:MESSAGE_LENGTH]
    changes: dict[str, Any] = {"exception_message": message, "exception_stack": _shortened(storable(failure.stack))}
    if failure.kind == "unknown":
        since = row.unknown_since or now
        if now - since < settings.unknown_handler_timeout:
            return Verdict(now + settings.unknown_handler_delay, changes | {"unknown_since": since})
        return Verdict(None, changes | {"retries": 0})
    changes |= {"attempts": row.attempts + 1, "lost_runs": 0, "unknown_since": None}
    if failure.kind == "conflict" and row.conflicts < settings.max_conflicts:
        # Spread by the id, so that jobs which collided do not meet again.
        spread = 1 + (row.pk.int % 1000) / 1000
        return Verdict(now + settings.conflict_delay * spread, changes | {"conflicts": row.conflicts + 1})
    retries = 0 if failure.kind == "fatal" else max(0, row.retries - 1)
    due_date = _retry_date(row, failure, now) if retries else None
    return Verdict(due_date, changes | {"retries": retries if due_date else 0})


def _shortened(stack: str) -> str:
    """The beginning and the end: an exception may quote megabytes, which a database refuses as a packet too big."""
    if len(stack) <= STACK_LENGTH:
        return stack
    half = STACK_LENGTH // 2
    return f"{stack[:half]}\n... {len(stack) - 2 * half} characters left out ...\n{stack[-half:]}"


def _retry_date(row: AbstractJob, failure: Failure, now: datetime) -> datetime | None:
    """When to try again; None if the plan says not to."""
    if failure.retry_at is not None:
        # In UTC: PostgreSQL would store what is then past the year 9999, and nobody could read the row again.
        return failure.retry_at.astimezone(UTC)
    failures = max(1, row.attempts + 1 - row.conflicts)
    try:
        plan = RetryPlan.parse(row.retry_plan) if row.retry_plan else failure.plan or default_plan()
        return plan.next_due_date(now, failures, failure.error)
    except DoNotRetry:
        return None
    except (InvalidRetryPlan, OverflowError):
        # A plan that a person or a callable broke, or that goes past the year 9999, must not cost the job its
        # retries, nor the loop its life.
        logger.exception("Job %s: its retry plan is broken; the default plan is used", row.pk)
        return default_plan().next_due_date(now, failures)
