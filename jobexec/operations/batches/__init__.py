"""Batches: operations on any number of jobs, which other jobs perform in pieces."""

from ..manage.verbs import OPERATIONS
from .control import (
    BatchProgress,
    activate_batch,
    batch_progress,
    cancel_batch,
    delete_batch,
    start_batch,
    suspend_batch,
)

__all__ = [
    "OPERATIONS",
    "BatchProgress",
    "activate_batch",
    "batch_progress",
    "cancel_batch",
    "delete_batch",
    "start_batch",
    "suspend_batch",
]
