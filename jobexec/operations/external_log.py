"""What the job log says of external jobs: which worker it was, and which client of a gateway reported it."""

from __future__ import annotations

from typing import Any

from jobexec.models import ExternalWorkerJob, LogState

from . import history
from .external_types import Caller


def write(
    using: str, state: LogState, row: ExternalWorkerJob, caller: Caller, worker: str | None = None, **values: Any
) -> None:
    """A line about a row that is still where the worker had it; ``values`` are its remaining columns.

    The worker stands where the node of other jobs stands: who reports, or else who fetched the job last. How long it
    took nobody knows here.
    """
    if history.wants(state):
        node = row.lock_owner or "" if worker is None else worker
        history.write(using, state, [history.entry(row, state, node=node, client=caller.name[:150], **values)])
