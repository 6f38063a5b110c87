"""Jobs that will be inserted when a transaction commits."""

from __future__ import annotations

import json
from typing import Any

from django.db import connections

from jobexec.encryption import unseal
from jobexec.handlers.deferred import DeferredJob

from .enqueued import EnqueuedJob


def waiting_for_commit(using: str) -> list[EnqueuedJob]:
    """The jobs for this database that ``enqueue_on_commit`` will insert, in the transactions of this thread."""
    opened: Any = connections.all(initialized_only=True)
    hooks = [hook for each in opened for _, hook, _ in each.run_on_commit]
    return [_of(hook) for hook in hooks if isinstance(hook, DeferredJob) and hook.using == using]


def _of(hook: DeferredJob) -> EnqueuedJob:
    configuration = unseal(json.loads(hook.encoded), hook.handler_type, hook.id)
    args, kwargs = tuple(configuration["args"]), configuration["kwargs"]
    return EnqueuedJob(hook.using, hook.id, hook.handler_type, args, kwargs, hook.due_date)
