"""jobexec: the job executor of a process engine, in the database that a Django project already has."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from .backends.declare import options
    from .exceptions import (
        BatchOver,
        BatchSealed,
        DoNotRetry,
        DuplicateJob,
        InvalidJob,
        JobCancelled,
        JobExecError,
        JobTimeout,
        LockLost,
        ResultDoesNotExist,
        RetryAt,
        RetryIn,
        TooManyMessages,
    )
    from .handlers.batch import JobBatch, abatch, aget_batch, batch, get_batch
    from .handlers.calls import JobCall
    from .handlers.context import JobContext, current_job
    from .handlers.decorator import job
    from .handlers.external import external_job, external_jobs
    from .handlers.history import history_handler
    from .handlers.results import KeptResult, aget_result, get_result
    from .handlers.schedules import schedule
    from .operations.enqueue.record_history import record_history
    from .operations.maintenance.history_jobs import HistoryRecord
    from .operations.messages.publish import publish_message
    from .operations.values.messages import ReceivedMessage
    from .retry import RetryPlan

__all__ = [
    "BatchOver",
    "BatchSealed",
    "DoNotRetry",
    "DuplicateJob",
    "HistoryRecord",
    "InvalidJob",
    "JobBatch",
    "JobCall",
    "JobCancelled",
    "JobContext",
    "JobExecError",
    "JobTimeout",
    "KeptResult",
    "LockLost",
    "ReceivedMessage",
    "ResultDoesNotExist",
    "RetryAt",
    "RetryIn",
    "RetryPlan",
    "TooManyMessages",
    "abatch",
    "aget_batch",
    "aget_result",
    "batch",
    "current_job",
    "external_job",
    "external_jobs",
    "get_batch",
    "get_result",
    "history_handler",
    "job",
    "options",
    "publish_message",
    "record_history",
    "schedule",
]

_HOMES = {
    "HistoryRecord": "operations.maintenance.history_jobs",
    "JobBatch": "handlers.batch",
    "JobCall": "handlers.calls",
    "JobContext": "handlers.context",
    "KeptResult": "handlers.results",
    "ReceivedMessage": "operations.values.messages",
    "RetryPlan": "retry",
    "abatch": "handlers.batch",
    "aget_batch": "handlers.batch",
    "aget_result": "handlers.results",
    "batch": "handlers.batch",
    "current_job": "handlers.context",
    "external_job": "handlers.external",
    "external_jobs": "handlers.external",
    "get_batch": "handlers.batch",
    "get_result": "handlers.results",
    "history_handler": "handlers.history",
    "job": "handlers.decorator",
    "options": "backends.declare",
    "publish_message": "operations.messages.publish",
    "record_history": "operations.enqueue.record_history",
    "schedule": "handlers.schedules",
}


def __getattr__(name: str) -> Any:
    """Import public names at first use, so that naming the app in settings imports nothing else."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES.get(name, 'exceptions')}", __name__), name)


def __dir__() -> list[str]:
    """Include the names that are not imported yet, so that shells complete them."""
    return sorted({*globals(), *__all__})
