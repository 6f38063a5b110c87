"""Runs the contenders of a case in turn."""

from __future__ import annotations

from collections.abc import Callable

from django.db import connections

from .case import Case
from .facts import settings_of, versions_of
from .measure import BenchError, Plan, Sample
from .report import Report
from .sandbox import overridden, refuse_company, remove_rows, sigterm_as_ctrl_c


def run_case(case: type[Case], plan: Plan, *, force: bool = False, progress: Callable[[str], None]) -> Report:
    """Run a case as planned; ``progress`` gets a line before each run.

    Raises BenchError if the engine is in use (unless ``force``), or if what was measured is not valid. However it
    ends, also by Ctrl-C or SIGTERM, nothing of the benchmark stays in the tables.
    """
    _refuse_memory(plan.alias)
    if not force:
        refuse_company(plan.alias)
    with overridden(plan.settings), sigterm_as_ctrl_c():
        remove_rows(plan.alias)
        try:
            samples = _run(case(plan), plan, progress)
        finally:
            remove_rows(plan.alias)
    return case(plan).report(samples, settings_of(plan), versions_of(plan.alias))


def _run(case: Case, plan: Plan, progress: Callable[[str], None]) -> dict[str, list[Sample]]:
    contenders = case.contenders()
    samples: dict[str, list[Sample]] = {name: [] for name in contenders}
    for number in range(1, plan.repeat + 1):
        for name, contender in contenders.items():
            progress(f"run {number} of {plan.repeat}: {name}")
            samples[name].append(contender())
            remove_rows(plan.alias)
    return samples


def _refuse_memory(alias: str) -> None:
    connection = connections[alias]
    if connection.vendor == "sqlite" and connection.is_in_memory_db():  # type: ignore[attr-defined]
        raise BenchError(f"{alias!r} is a SQLite database in memory, which threads cannot share: use a file.")
