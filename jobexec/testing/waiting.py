"""Jobs that will be inserted when a transaction commits."""

from __future__ import annotations

import json
from typing import Any

from django.db import connections

from jobexec.handlers.deferred import DeferredJob
from jobexec.operations.values.inserted_rows import instance

from .enqueued import EnqueuedJob


def waiting_for_commit(using: str) -> list[EnqueuedJob]:
    """The jobs for this database that ``enqueue_on_commit`` will insert, in the transactions of this thread."""
    opened: Any = connections.all(initialized_only=True)
    hooks = [hook for each in opened for _, hook, _ in each.run_on_commit]
    return [_of(hook) for hook in hooks if isinstance(hook, DeferredJob) and hook.pattern.using == using]


def _of(hook: DeferredJob) -> EnqueuedJob:
    own: dict[str, Any] = {"due_date": hook.due_date, "id": hook.id, "create_time": hook.called_at}
    table, columns, _ = hook.pattern.job(json.loads(hook.encoded), hook.encoded, **own)
    return EnqueuedJob.of(hook.pattern.using, instance(hook.pattern.using, table, columns), exists=False)
