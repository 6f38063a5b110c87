"""What a failure costs a job: retry, dead letter or another try, decided here and nowhere else; pure."""

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
from ..values.log_fields import log_fields

logger = logging.getLogger("jobexec.settle")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of a job after a failure: a due date, or None for a dead letter, and what its row then says."""

    due_date: datetime | None
    changes: dict[str, Any]

    @property
    def columns(self) -> dict[str, Any]:
        """What its row says where it goes; a dead letter keeps the date when it was due."""
        return self.changes | ({"due_date": self.due_date} if self.due_date else {})


def decide(row: AbstractJob, failure: Failure, now: datetime) -> Verdict:
    """What a failure costs this job and when it runs again; pure.

    ``retries`` counts attempts left, ``attempts`` attempts made, which picks the interval of the retry plan. A run
    with a recorded outcome proves that the job does not kill its process: ``lost_runs`` starts anew.
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
        # It has come to an end of its own choice: it is no suspect.
        return Verdict(_retry_date(row, failure, now), changes | {"lost_runs": 0, "unknown_since": None})
    changes |= {"attempts": row.attempts + 1, "lost_runs": 0, "unknown_since": None}
    if failure.kind == "conflict" and row.conflicts < settings.max_conflicts:
        # Spread by the id, so that jobs which collided do not meet again.
        spread = 1 + (row.pk.int % 1000) / 1000
        return Verdict(now + settings.conflict_delay * spread, changes | {"conflicts": row.conflicts + 1})
    retries = 0 if failure.kind == "fatal" else max(0, row.retries - 1)
    due_date = _retry_date(row, failure, now) if retries else None
    return Verdict(due_date, changes | {"retries": retries if due_date else 0})


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
        text = "Job %s: its retry plan is broken; the default plan is used"
        logger.exception(text, row.pk, extra=log_fields(row))
        return default_plan().next_due_date(now, failures)
