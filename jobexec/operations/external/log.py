"""What the job log says of external jobs: which worker it was, and which client of a gateway reported it."""

from __future__ import annotations

from typing import Any

from jobexec.models import ExternalWorkerJob, LogState

from ..history import job_log
from .types import Caller


def write(
    using: str, state: LogState, row: ExternalWorkerJob, caller: Caller, worker: str | None = None, **values: Any
) -> None:
    """A line about a row that is still where the worker had it; ``values`` are its remaining columns.

    The worker stands where the node of other jobs stands: who reports, or else who fetched the job last. How long it
    took nobody knows here.
    """
    if job_log.wants(state):
        node = row.lock_owner or "" if worker is None else worker
        job_log.write(using, state, [job_log.entry(row, state, node=node, client=caller.name[:150], **values)])
