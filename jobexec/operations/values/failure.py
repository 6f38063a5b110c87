"""Why a run did not succeed."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from jobexec.models import AbstractJob
from jobexec.retry import RetryPlan

from ..sql.errors import storable
from .acquired_job import AcquiredJob
from .fingerprint import fingerprint

#: The maximum stored length of an exception's message and of its stack trace, in characters.
MESSAGE_LENGTH = 4000
STACK_LENGTH = 100_000


@dataclass(slots=True)
class Failure:
    """Why a run did not succeed.

    ``kind`` defines its cost: ``error`` one retry; ``fatal`` all of them (a do-not-retry error, an unreadable row);
    ``conflict`` none, up to the limit MAX_CONFLICTS; ``interrupted`` none, and it is no attempt: the job postponed
    itself because its executor stops; ``snoozed`` the same for a reason of its own, up to the limit MAX_SNOOZES;
    ``unknown`` none until UNKNOWN_HANDLER_TIMEOUT has passed since a node first did not know the handler; ``cancelled``
    ends the job without a failure; ``handled`` ends it with one, which needs no operator. ``retry_at`` overrides the
    due date of the retry plan. ``keeps_instance``: the handler still runs, so its process instance stays locked.
    """

    message: str
    stack: str = ""
    kind: str = "error"
    retry_at: datetime | None = None
    plan: RetryPlan | None = None
    error: BaseException | None = None
    keeps_instance: bool = False
    #: Cache of :func:`fingerprint_of`.
    known_fingerprint: str = field(default="", init=False, compare=False, repr=False)

    @property
    def counts(self) -> bool:
        """Whether it is an attempt, to be logged and counted; the last one always is."""
        return self.kind not in {"unknown", "interrupted", "snoozed"}


def fingerprint_of(row: AbstractJob | AcquiredJob, failure: Failure) -> str:
    """Return the fingerprint of a failure, which similar failures share."""
    if not failure.known_fingerprint:
        found = fingerprint(row.handler_type, storable(failure.message), failure.stack)
        failure.known_fingerprint = found  # needed twice, and computing it takes microseconds
    return failure.known_fingerprint
