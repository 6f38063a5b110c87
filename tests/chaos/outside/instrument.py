"""What every process tells of the jobs that it gives to workers and takes back, and which guard it lacks."""

import os
import time
from collections.abc import Sequence
from functools import wraps
from pathlib import Path
from typing import Any

from django.conf import settings

from jobexec.operations import external
from jobexec.operations.external import fetch as external_fetch
from jobexec.operations.external.types import ActivatedJob, Fetch
from tests.chaos.journal import Journal, now

from . import breaks

#: The name of this process; '' in the driver.
NAME = os.environ.get("JOBEXEC_CHAOS_NODE", "")
_journals: list[Journal] = []


def journal() -> Journal:
    """That of this process, which has a name."""
    if not _journals:
        _journals.append(Journal(Path(getattr(settings, "CHAOS_FOLDER", "")) / "journal", NAME))
    return _journals[0]


def monotonic(wall: float) -> float:
    """The time of the journal that it was, or will be, at a time of the wall clock."""
    return wall - time.time() + now()


def install() -> None:
    """Called once in every process, before its gateway is imported."""
    if not NAME:
        return
    if broken := os.environ.get("JOBEXEC_CHAOS_BREAK"):
        breaks.GUARDS[broken]()
    _tell_fetches()


def _tell_fetches() -> None:
    activate, give_back = external_fetch.activate_jobs, external_fetch.yield_jobs

    @wraps(activate)
    def activate_jobs(using: str, fetch: Fetch) -> list[ActivatedJob]:
        jobs = activate(using, fetch)
        if jobs:
            deadline = monotonic(jobs[0].deadline.timestamp())
            journal().write(
                "grant",
                keys=[job.key for job in jobs],
                worker=fetch.worker,
                lease=jobs[0].lease_token,
                deadline=deadline,
                moment=deadline - fetch.timeout.total_seconds(),
            )
        return jobs

    @wraps(give_back)
    def yield_jobs(using: str, jobs: Sequence[ActivatedJob]) -> int:
        for job in jobs:
            journal().write("yielding", key=job.key, deadline=monotonic(job.deadline.timestamp()))
        return give_back(using, jobs)

    changes: dict[str, Any] = {"activate_jobs": activate_jobs, "yield_jobs": yield_jobs}
    for module in (external_fetch, external):
        for name, function in changes.items():
            setattr(module, name, function)
