"""Enqueueing encrypted jobs.

If this fails, Django reports the variables of each frame. So the arguments are in no frame from here on but within a
:class:`~jobexec.encryption.Hidden`, until they are encrypted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

from django.views.decorators.debug import sensitive_variables

from jobexec.encryption import Hidden, seal_text
from jobexec.exceptions import InvalidJob
from jobexec.identifiers import uuid7

from . import deferred, many

if TYPE_CHECKING:
    from jobexec.operations.values.inserted_rows import AnyJob

    from .function import JobFunction

T = TypeVar("T")


def enqueue(handler: JobFunction[..., Any], call: Hidden) -> AnyJob:
    """See :meth:`~jobexec.handlers.function.JobFunction.enqueue`."""
    id = uuid7()
    text, create = _without_frames(_prepared, handler, call, id)
    return create(json.loads(text), text, due_date=handler._due_date(), id=id)


@sensitive_variables()
def _prepared(handler: JobFunction[..., Any], call: Hidden, id: UUID) -> tuple[str, Callable[..., AnyJob]]:
    args, kwargs = call.values
    text = seal_text(handler._encode(args, kwargs), handler.name, id)
    return text, handler._create(handler._pattern_of(args, kwargs), args, kwargs)


def enqueue_many(handler: JobFunction[..., Any], calls: Hidden) -> Sequence[AnyJob]:
    """See :meth:`~jobexec.handlers.function.JobFunction.enqueue_many`."""
    return _without_frames(many.enqueue_many, handler, *calls.values)


def enqueue_on_commit(handler: JobFunction[..., Any], call: Hidden) -> UUID:
    """See :meth:`~jobexec.handlers.function.JobFunction.enqueue_on_commit`."""
    return _without_frames(deferred.enqueue_on_commit, handler, *call.values)


@sensitive_variables()
def _without_frames(function: Callable[..., T], handler: JobFunction[..., Any], *arguments: Any) -> T:
    try:
        return function(handler, *arguments)
    except InvalidJob as error:
        problem = error.with_traceback(None)
    del arguments
    raise problem from None
