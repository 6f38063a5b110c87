"""jobexec: the job executor of a process engine, in the database that a Django project already has."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from .exceptions import DoNotRetry, InvalidJob, JobCancelled, JobExecError, JobTimeout, LockLost, RetryAt, RetryIn
    from .handlers.context import JobContext
    from .handlers.function import job
    from .handlers.history import history_handler
    from .operations.history_jobs import HistoryRecord
    from .operations.record import record_history
    from .retry import RetryPlan

__all__ = [
    "DoNotRetry",
    "HistoryRecord",
    "InvalidJob",
    "JobCancelled",
    "JobContext",
    "JobExecError",
    "JobTimeout",
    "LockLost",
    "RetryAt",
    "RetryIn",
    "RetryPlan",
    "history_handler",
    "job",
    "record_history",
]

_HOMES = {
    "HistoryRecord": "operations.history_jobs",
    "JobContext": "handlers.context",
    "RetryPlan": "retry",
    "history_handler": "handlers.history",
    "job": "handlers.function",
    "record_history": "operations.record",
}


def __getattr__(name: str) -> Any:
    """Load public names when they are first used, so that naming the app in settings imports nothing else."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES.get(name, 'exceptions')}", __name__), name)
