"""The timing of a run, whatever its outcome, and its result if that is kept."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from jobexec.models import AbstractJob


@dataclass(slots=True)
class Run:
    """A run: its wall-clock start, the handler's run time in seconds, and the node's name."""

    # Not frozen: one is created for each job, and creating a frozen one takes four times as long.

    started_at: datetime
    duration: float
    node: str


class Result(NamedTuple):
    """A return value as JSON, and how long it is kept, if not for RESULT_TTL."""

    text: str = "null"
    keep_for: timedelta | None = None


def timing(row: AbstractJob, run: Run) -> dict[str, Any]:
    """Return the columns of a log row that come from the run."""
    wait = (run.started_at - (row.due_date or row.create_time)).total_seconds()
    return {"node": run.node, "duration": run.duration, "wait": max(0.0, wait)}
