"""Operations on very many jobs, done piece by piece by jobs."""

from .control import (
    BatchProgress,
    activate_batch,
    batch_progress,
    cancel_batch,
    delete_batch,
    start_batch,
    suspend_batch,
)
from .operations import OPERATIONS, Operation

__all__ = [
    "OPERATIONS",
    "BatchProgress",
    "Operation",
    "activate_batch",
    "batch_progress",
    "cancel_batch",
    "delete_batch",
    "start_batch",
    "suspend_batch",
]
