"""The signals of django.tasks. An error in a receiver is logged and changes no task."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from django.db import DatabaseError, connections, transaction
from django.dispatch import Signal

from .compat import TaskResultStatus, log_task_enqueued, log_task_started, task_enqueued, task_finished, task_started
from .lookup import backend_of
from .results import LiveTaskResult

if TYPE_CHECKING:
    from jobexec.models import AbstractJob


def enqueued(result: Any, sender: type[Any], using: str) -> None:
    """A task was enqueued: sent at once, in the caller's transaction."""
    _send(task_enqueued, log_task_enqueued, result, sender, using)


def started(result: Any, sender: type[Any], using: str) -> None:
    """An attempt is about to start; for an atomic task, sent in its transaction."""
    _send(task_started, log_task_started, result, sender, using)


async def astarted(result: Any, sender: type[Any]) -> None:
    """An attempt is about to start, on an event loop: receivers that are not async run in a thread."""
    if _is_only_logged(task_started, log_task_started):
        task_started.send_robust(sender, task_result=result)
    else:
        await task_started.asend_robust(sender, task_result=result)


def _send(signal: Signal, log: Callable[..., object], result: Any, sender: type[Any], using: str) -> None:
    if _is_only_logged(signal, log) or not connections[using].in_atomic_block:
        signal.send_robust(sender, task_result=result)
        return
    # A database error in a receiver would break the transaction, even if it is caught.
    with suppress(DatabaseError), transaction.atomic(using=using):
        signal.send_robust(sender, task_result=result)


def _is_only_logged(signal: Signal, log: Callable[..., object]) -> bool:
    """Whether the only receiver is the package of tasks itself, whose log line needs neither thread nor database."""
    return [key[0] for key, *_ in signal.receivers] == [id(log)]


def finished(result: Any, sender: type[Any], error: BaseException | None) -> None:
    """A task has ended. Sent while its error is being handled, for receivers that call ``sys.exc_info()``."""
    if error is None:
        task_finished.send_robust(sender, task_result=result)
        return
    try:
        raise error
    except BaseException:
        task_finished.send_robust(sender, task_result=result)


def ended(using: str, jobs: Sequence[AbstractJob], **kwargs: Any) -> None:
    """Tasks were ended by an operation: send a failure for those that this process knows."""
    from .registration import find_task

    for job in jobs:
        task, backend = find_task(job.handler_type), backend_of(job.task_backend)
        if task is not None and backend is not None:
            known = {"task": task, "id": str(job.pk), "status": TaskResultStatus.FAILED, "backend": backend.alias}
            finished(LiveTaskResult.make(using, **known), type(backend), None)
