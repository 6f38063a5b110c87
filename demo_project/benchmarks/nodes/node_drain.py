"""A drain by several processes."""

from __future__ import annotations

from typing import Any

from jobexec.models import Job
from jobexec.operations.sql.locks import is_single_writer

from ..measure import BenchError, Plan, Sample, Stopwatch
from ..noop import HANDLER, Ledger, wait_for
from ..progress import Progress
from .processes import Nodes


def drain_on_nodes(plan: Plan, role: str, processes: int, ledger: Ledger, progress: Progress, **more: Any) -> Sample:
    """Let so many processes, each an executor (``role`` "ours") or raw loops ("raw"), empty the table.

    ``more`` is what else they are told: ``kind``, what the jobs do, if that is anything; ``page``, that of raw SQL.

    Timed from the moment when all may begin until the table is empty; ``cpu`` is that of all of them. Raises BenchError
    unless each job was done once.
    """
    alias, jobs = plan.alias, ledger.wanted
    if is_single_writer(alias):
        raise BenchError(f"--processes: {alias!r} is on SQLite, which only one executor at a time may serve.")
    with Nodes(processes, alias, plan.overrides, role, **{"page": plan.raw_page, **more}) as nodes:
        nodes.wait_until_ready()
        progress.follow(nodes.done, jobs)
        with Stopwatch(alias) as watch:
            nodes.go()
            nodes.wait_until_done(jobs)
            left = Job.objects.using(alias).filter(handler_type=HANDLER)
            wait_for(lambda: not left.exists(), "the last jobs are settled")
        reports = nodes.stop()
    ran = [each for report in reports for each in report["ran"]]
    if not len(ran) == len(set(ran)) == jobs:
        raise BenchError(f"{jobs} jobs, {len(ran)} ran on {processes} processes, {len(set(ran))} different ones.")
    return watch.sample(jobs, cpu=sum(report["cpu"] for report in reports))
