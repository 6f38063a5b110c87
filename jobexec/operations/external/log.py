"""Log entries of external jobs: they name the worker and the gateway client that reported the event."""

from __future__ import annotations

from typing import Any

from jobexec.models import ExternalWorkerJob, LogState

from ..history import job_log
from .types import Caller


def write(
    using: str, state: LogState, row: ExternalWorkerJob, caller: Caller, worker: str | None = None, **values: Any
) -> None:
    """Write a log entry for a row that is still in the worker's table; ``values`` are further columns.

    The column ``node`` holds the worker: the one that reports, or else the one that fetched the job last. The duration
    is not known here.
    """
    if job_log.wants(state):
        node = row.lock_owner or "" if worker is None else worker
        job_log.write(using, state, [job_log.entry(row, state, node=node, client=caller.name[:150], **values)])
