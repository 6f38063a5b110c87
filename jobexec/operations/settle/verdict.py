"""Decide what a failure costs a job: a retry, all retries (dead letter) or nothing. The only such place; pure."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from jobexec.conf import get_settings
from jobexec.exceptions import DoNotRetry, InvalidRetryPlan
from jobexec.models import AbstractJob
from jobexec.retry import RetryPlan, default_plan

from ..sql.errors import shortened, storable
from ..values.failure import MESSAGE_LENGTH, STACK_LENGTH, Failure
from ..values.failure_log import failure_log
from ..values.log_fields import log_fields

logger = logging.getLogger("jobexec.settle")


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision after a failure: a due date, or None for a dead letter, and the changed columns of the row."""

    due_date: datetime | None
    changes: dict[str, Any]

    @property
    def columns(self) -> dict[str, Any]:
        """The changed columns of the row in its new table; a dead letter keeps its due date."""
        return self.changes | ({"due_date": self.due_date} if self.due_date else {})


def decide(row: AbstractJob, failure: Failure, now: datetime) -> Verdict:
    """Decide what a failure costs this job and when it runs again. Pure; a snooze too many becomes an error.

    ``retries`` counts the attempts left, ``attempts`` those made, which select the interval of the retry plan. A run
    with a recorded outcome proves that the job does not kill its process, so ``lost_runs`` is reset.
    """
    settings = get_settings()
    message = storable(failure.message)[:MESSAGE_LENGTH]
    changes: dict[str, Any] = {
        "exception_message": message,
        "exception_stack": shortened(storable(failure.stack), STACK_LENGTH),
    }
    if failure.kind == "unknown":
        since = row.unknown_since or now
        if now - since < settings.unknown_handler_timeout:
            return Verdict(now + settings.unknown_handler_delay, changes | {"unknown_since": since})
        return Verdict(None, changes | {"retries": 0})
    if failure.kind == "interrupted":
        # The run ended by its own choice: the job is no suspect.
        return Verdict(_retry_date(row, failure, now), changes | {"lost_runs": 0, "unknown_since": None})
    if failure.kind == "snoozed":
        if row.snoozes < settings.max_snoozes:
            snoozed = {"snoozes": row.snoozes + 1, "lost_runs": 0, "unknown_since": None, "exception_stack": ""}
            return Verdict(_retry_date(row, failure, now), changes | snoozed)
        failure.kind = "error"
    changes |= {"attempts": row.attempts + 1, "lost_runs": 0, "unknown_since": None}
    if failure.kind == "conflict" and row.conflicts < settings.max_conflicts:
        # Spread by the id, so that jobs that conflicted do not meet again.
        spread = 1 + (row.pk.int % 1000) / 1000
        return Verdict(now + settings.conflict_delay * spread, changes | {"conflicts": row.conflicts + 1})
    retries = 0 if failure.kind == "fatal" else max(0, row.retries - 1)
    due_date = _retry_date(row, failure, now) if retries else None
    return Verdict(due_date, changes | {"retries": retries if due_date else 0})


def _retry_date(row: AbstractJob, failure: Failure, now: datetime) -> datetime | None:
    """Return when to try again; None if the plan forbids it."""
    if failure.retry_at is not None:
        # PostgreSQL would store a moment that is past the year 9999 in UTC, and the row could not be read again.
        return failure.retry_at.astimezone(UTC)
    failures = max(1, row.attempts + 1 - row.conflicts)
    try:
        return planned_date(row, failures, now, failure.plan, failure.error)
    except DoNotRetry:
        return None


def planned_date(
    row: AbstractJob,
    failures: int,
    now: datetime,
    plan: RetryPlan | None = None,
    error: BaseException | None = None,
) -> datetime:
    """Return when the plan of a job tries it again after this failure; ``plan`` is for a row without one.

    Raises DoNotRetry if the plan forbids it.
    """
    try:
        plan = RetryPlan.parse(row.retry_plan) if row.retry_plan else plan or default_plan()
        return plan.next_due_date(now, failures, error)
    except (InvalidRetryPlan, OverflowError):
        # A plan broken by an operator or a callable, or one that goes past the year 9999, must neither cost the job its
        # retries nor end the loop.
        text = "Job %s: its retry plan is broken; using the default plan"
        group = f"retry plan {row.handler_type}"
        failure_log.log(logger, logging.ERROR, group, text, row.pk, exc_info=True, extra=log_fields(row))
        return default_plan().next_due_date(now, failures)
