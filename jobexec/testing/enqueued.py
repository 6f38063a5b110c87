"""Enqueued jobs as tests see them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from jobexec.encryption import unseal
from jobexec.handlers.base import NamesArguments
from jobexec.handlers.registry import find_handler
from jobexec.models import AbstractJob
from jobexec.redaction import by_name


@dataclass(frozen=True, slots=True)
class EnqueuedJob:
    """A job that was enqueued: its handler, its arguments and its due date.

    ``args`` and ``kwargs`` are the stored JSON values, decrypted. ``job`` is the row; any other column of it is
    available as an attribute (``enqueued.priority``). ``job`` is None if the job waits for a commit and has no row yet;
    the attributes are then those that it will have, and its creation is the call.
    """

    using: str
    id: UUID
    handler: str
    args: Sequence[Any] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    due_date: datetime | None = None
    job: AbstractJob | None = field(default=None, repr=False, compare=False)
    _columns: AbstractJob | None = field(default=None, repr=False, compare=False)

    @classmethod
    def of(cls, using: str, job: AbstractJob, *, exists: bool = True) -> EnqueuedJob:
        """Make it from a row; ``exists``: the row is in the database."""
        configuration = unseal(job.handler_configuration, job.handler_type, job.pk)
        configuration = configuration if isinstance(configuration, dict) else {}
        args, kwargs = configuration.get("args", ()), configuration.get("kwargs", {})
        row = job if exists else None
        return cls(using, job.pk, job.handler_type, tuple(args), dict(kwargs), job.due_date, row, job)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or self._columns is None:
            raise AttributeError(name)
        return getattr(self._columns, name)

    def arguments(self) -> dict[str, Any]:
        """The arguments by the names of the function's parameters."""
        return by_name(self.handler, self.args, self.kwargs)


def sensitive_of(handler: str) -> Sequence[str]:
    """The names of arguments that a handler declares sensitive."""
    known = find_handler(handler)
    return known.sensitive_names() if isinstance(known, NamesArguments) else ()
