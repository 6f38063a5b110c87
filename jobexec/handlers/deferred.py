"""``enqueue_on_commit``: a job in one database for changes made by a transaction of another."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.db import DEFAULT_DB_ALIAS, connections, transaction
from django.views.decorators.debug import sensitive_variables

from jobexec import clock
from jobexec.encryption import seal_text
from jobexec.exceptions import InvalidJob
from jobexec.identifiers import uuid7

if TYPE_CHECKING:
    from jobexec.operations.enqueue.create import Pattern

    from .function import JobFunction

logger = logging.getLogger("jobexec.enqueue")


@sensitive_variables("args", "kwargs", "encoded")
def enqueue_on_commit(handler: JobFunction[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> UUID:
    """Insert the job of a call after the commit; the call is fully validated now."""
    id = uuid7()
    encoded, alias = handler._encode(args, kwargs), handler.options.get("transaction", DEFAULT_DB_ALIAS)
    if handler.encrypted:  # now: the hook is seen in reports of errors
        encoded = seal_text(encoded, handler.name, id)
    if alias not in connections:
        raise InvalidJob(f"transaction: expected an alias in DATABASES ({', '.join(connections)}), got {alias!r}.")
    pattern = handler._pattern_of(args, kwargs)
    create, due_date = handler._create(pattern, args, kwargs), handler._due_date()
    hook = DeferredJob(create, pattern, handler.name, id, encoded, due_date, clock.now(pattern.using))
    # Not robust: Django would only log the error of the insert, and the caller would not learn of the missing job.
    transaction.on_commit(hook, using=alias)
    return id


@dataclass(frozen=True, eq=False)
class DeferredJob:
    """A job that is inserted when this is called: a hook of a transaction, with its content readable (for tests)."""

    create: Callable[..., Any]
    pattern: Pattern
    handler_type: str
    id: UUID
    encoded: str
    due_date: datetime | None
    called_at: datetime

    def __call__(self) -> None:
        try:
            self.create(json.loads(self.encoded), self.encoded, due_date=self.due_date, id=self.id)
        except Exception:
            from jobexec.operations.sql.errors import one_line  # its package loads models

            # Logged here, too, because code that catches it may not know which job it was. Without the arguments.
            logger.error(
                "The job %s of %s could not be inserted after the commit", self.id, one_line(self.handler_type)
            )
            raise
