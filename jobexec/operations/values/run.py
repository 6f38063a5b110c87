"""How a run went, whatever became of its job."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from jobexec.models import AbstractJob


@dataclass(slots=True)
class Run:
    """How a run went: wall-clock start, seconds that the handler ran, and the node's name."""

    # Not frozen: one is made for each job, and that would take four times as long.

    started_at: datetime
    duration: float
    node: str


def timing(row: AbstractJob, run: Run) -> dict[str, Any]:
    """The columns of a log row that come from the run."""
    wait = (run.started_at - (row.due_date or row.create_time)).total_seconds()
    return {"node": run.node, "duration": run.duration, "wait": max(0.0, wait)}
