"""Runs the contenders of a case in turn."""

from __future__ import annotations

from django.db import connections

from .case import Case
from .facts import settings_of, versions_of
from .measure import BenchError, Plan, Sample
from .progress import Progress
from .report import Report
from .sandbox import overridden, refuse_company, remove_everything, remove_rows, sigterm_as_ctrl_c


def run_case(case: type[Case], plan: Plan, *, force: bool = False, progress: Progress) -> Report:
    """Run a case as planned; ``progress`` is told before each run.

    Raises BenchError if the engine is in use (unless ``force``), or if what was measured is not valid. However it
    ends, also by Ctrl-C or SIGTERM, nothing of the benchmark stays in the tables.
    """
    _refuse_memory(plan.alias)
    if not force:
        refuse_company(plan.alias)
    running = case(plan, progress)
    with overridden(plan.settings), sigterm_as_ctrl_c():
        remove_everything(plan.alias)
        try:
            samples = _run(running, plan, progress)
        finally:
            remove_everything(plan.alias)
    return running.report(samples, settings_of(plan), versions_of(plan.alias))


def _run(case: Case, plan: Plan, progress: Progress) -> dict[str, list[Sample]]:
    phases = case.phases()
    samples: dict[str, list[Sample]] = {}
    runs, number = plan.repeat * sum(len(contenders) for _, contenders in phases), 0
    for prepare, contenders in phases:
        prepare()
        for _ in range(plan.repeat):
            for name, contender in contenders.items():
                number += 1
                progress.run(f"{case.name}, {name}", number, runs)
                samples.setdefault(name, []).append(contender())
                remove_rows(plan.alias)
    return _in_order(samples)


def _in_order(samples: dict[str, list[Sample]]) -> dict[str, list[Sample]]:
    """Ours and raw first, whichever ran first."""
    first = [name for name in ("ours", "raw") if name in samples]
    return {name: samples[name] for name in [*first, *(name for name in samples if name not in first)]}


def _refuse_memory(alias: str) -> None:
    connection = connections[alias]
    if connection.vendor == "sqlite" and connection.is_in_memory_db():  # type: ignore[attr-defined]
        raise BenchError(f"{alias!r} is a SQLite database in memory, which threads cannot share: use a file.")
