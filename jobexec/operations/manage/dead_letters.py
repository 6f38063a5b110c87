"""Move jobs to the dead letters on an operator's request."""

from __future__ import annotations

from typing import Any

from jobexec import clock, signals
from jobexec.exceptions import DoNotRetry, InvalidJob, JobLocked
from jobexec.models import WAITING_TABLES, AbstractJob, DeadLetterJob

from ..audit import audited
from ..history.task_attempts import write_buried
from ..notify.signals import announce
from ..rows.move import move
from ..rows.routing import held_by
from ..sql.errors import storable
from ..targets.for_each import CHANGED_MEANWHILE, OperationResult, Target, database_of, for_each
from ..values.failure import MESSAGE_LENGTH
from ..values.fingerprint import fingerprint

_BY_HAND = "It was moved to the dead letters by hand."


@audited
def move_to_dead_letter(target: Target, reason: str = "", *, using: str | None = None) -> OperationResult:
    """Make waiting jobs dead letters, whatever retries they have left; refused while they run.

    Flowable's MoveJobToDeadLetterJob. An incident is opened. ``reason`` replaces the message of the last failure, whose
    stack trace stays; without a reason, an existing message stays, too. Raises :class:`~jobexec.exceptions.InvalidJob`
    if the reason is not a string.
    """
    if not isinstance(reason, str):
        raise InvalidJob(f"reason: expected a string, got {reason!r}.")
    database, text = database_of(target, using), storable(reason)[:MESSAGE_LENGTH]
    return for_each(target, database, lambda row: _bury(database, row, text), *WAITING_TABLES)


def _bury(using: str, row: AbstractJob, reason: str) -> str | None:
    if row.locked:
        raise JobLocked(held_by(row))
    message = reason or row.exception_message or _BY_HAND
    changes: dict[str, Any] = {"retries": 0, "exception_message": message, "died_at": clock.now(using)}
    stack = "" if reason else row.exception_stack
    moved = move(row, DeadLetterJob, **changes, fingerprint=fingerprint(row.handler_type, message, stack))
    if moved is None:
        return CHANGED_MEANWHILE
    write_buried(using, moved)
    announce(signals.job_dead_lettered, using, DeadLetterJob, job=moved, error=DoNotRetry(message))
    return None
