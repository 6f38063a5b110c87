"""The signals of django.tasks. An error in a receiver is logged and changes no task."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from asgiref.sync import sync_to_async
from django.db import DatabaseError, connections, transaction
from django.dispatch import Signal

from .compat import TaskResultStatus, log_task_enqueued, log_task_started, task_enqueued, task_finished, task_started
from .lookup import backend_of
from .results import LiveTaskResult
from .task import rebuilt

if TYPE_CHECKING:
    from jobexec.models import AbstractJob

logger = logging.getLogger("jobexec.execution")


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
        if _has_async(task_started):
            await sync_to_async(_load)(result)
        await task_started.asend_robust(sender, task_result=result)


def _send(signal: Signal, log: Callable[..., object], result: Any, sender: type[Any], using: str) -> None:
    if _is_only_logged(signal, log):
        signal.send_robust(sender, task_result=result)
    elif not connections[using].in_atomic_block:
        _load_for_async(signal, result)
        signal.send_robust(sender, task_result=result)
    else:
        # A database error in a receiver would break the transaction, even if it is caught.
        with suppress(DatabaseError), transaction.atomic(using=using):
            _load_for_async(signal, result)
            signal.send_robust(sender, task_result=result)


def _is_only_logged(signal: Signal, log: Callable[..., object]) -> bool:
    """Whether the only receiver is the package of tasks itself, whose log line needs neither thread nor database."""
    return [key[0] for key, *_ in signal.receivers] == [id(log)]


def _load_for_async(signal: Signal, result: Any) -> None:
    """Load the result if a receiver is async: on its event loop, attributes cannot query the database."""
    if _has_async(signal) and isinstance(result, LiveTaskResult):
        _load(result)


def _has_async(signal: Signal) -> bool:
    return any(is_async for *_, is_async in signal.receivers)


def _load(result: LiveTaskResult) -> None:
    try:
        result.load()
    except Exception:
        logger.exception("The result of the task %s could not be loaded for async receivers", result.id)


def finished(result: Any, sender: type[Any], error: BaseException | None) -> None:
    """A task has ended. Sent while its error is being handled, for receivers that call ``sys.exc_info()``."""
    _load_for_async(task_finished, result)
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
            task = rebuilt(task, backend=backend.alias)
            known = {"task": task, "id": str(job.pk), "status": TaskResultStatus.FAILED, "backend": backend.alias}
            finished(LiveTaskResult.make(using, **known), type(backend), None)
