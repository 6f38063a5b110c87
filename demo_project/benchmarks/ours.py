"""Our side of a case: an executor in this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from jobexec.conf import Settings
from jobexec.executor.job_executor import JobExecutor

from .measure import BenchError, Sample, Stopwatch
from .noop import Ledger, wait_for
from .sandbox import jobs_left, tidy

Figures = Callable[[], Mapping[str, float]]


def execute(settings: Settings, alias: str, ledger: Ledger, figures: Figures = dict) -> Sample:
    """Let an executor run the jobs of a ledger, and check that it did each once.

    Timed from its start, with its registration and its threads, until the last job is settled. ``figures`` are asked
    before it stops.
    """
    executor = JobExecutor(settings)
    try:
        with Stopwatch(alias) as watch:
            executor.start()
            ledger.wait()
            wait_for(lambda: executor.idle, "the executor settles what it has run")
        told = figures()
    finally:
        executor.stop()
    ledger.check()
    return watch.sample(ledger.wanted, figures=told)


def execute_all(settings: Settings, alias: str, ledger: Ledger, figures: Figures = dict) -> Sample:
    """:func:`execute` on a tidy table, after which no job may be there."""
    tidy(alias)
    sample = execute(settings, alias, ledger, figures)
    check_nothing_left(alias)
    return sample


def check_nothing_left(alias: str) -> None:
    """Raise BenchError if a job of the run is still there."""
    left = jobs_left(alias)
    if left:
        raise BenchError(f"{left} jobs are still there after all have run.")
