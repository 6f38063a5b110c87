"""The options of ``manage.py jobbench``: what they are called, which cases take them, and the plan that they make."""

from __future__ import annotations

import os
from argparse import SUPPRESS, ArgumentParser, ArgumentTypeError
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobexec.conf import get_settings
from jobexec.executor.process.preflight import check_engines

from .case import Case
from .cases import CASES
from .cases.cluster import Cluster, ClusterPlan
from .kinds import KINDS
from .measure import RAW_PAGE, BenchError, Plan
from .nodes.strategies import ALL, STRATEGIES, chosen
from .sandbox import build_settings

_NODES = 3


def positive(text: str) -> int:
    """A number of at least 1."""
    return _at_least(1, text)


def count(text: str) -> int:
    """A number of at least 0."""
    return _at_least(0, text)


def seconds(text: str) -> float:
    """A time greater than 0."""
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found < float("inf"):
        raise ArgumentTypeError(f"expected a number of seconds greater than 0, got {text!r}")
    return found


def _at_least(least: int, text: str) -> int:
    if not text.isdigit() or int(text) < least:
        raise ArgumentTypeError(f"expected a number of at least {least}, got {text!r}")
    return int(text)


@dataclass(frozen=True, slots=True)
class CaseOption:
    """An option that only some cases have; None tells that it was not given, and ``default`` is what it then is."""

    name: str
    cases: tuple[str, ...]
    help: str
    default: Any = None
    type: Callable[[str], Any] = positive
    choices: tuple[str, ...] | None = None

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    def add_to(self, group: Any) -> None:
        """Declare it."""
        told = "" if self.default is None else f" (default: {_said(self.default)})"
        more: dict[str, Any] = {"choices": self.choices} if self.choices else {"type": self.type, "metavar": "N"}
        group.add_argument(self.flag, help=f"{', '.join(self.cases)}: {self.help}{told}.", **more)


def _said(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


CASE_OPTIONS: tuple[CaseOption, ...] = (
    CaseOption(
        "processes",
        ("drain", "handlers", "external"),
        "executors or workers, each a process of its own, and as many raw loops",
    ),
    CaseOption("worker_threads", ("external",), "threads of each process of workers", 4),
    CaseOption("gateways", ("external",), "which gateways to measure", "all", str, ("rest", "grpc", "none", "all")),
    CaseOption("handler", ("handlers",), "what each job does", "write", str, tuple(KINDS)),
    CaseOption("timers", ("backlog",), "timers in the tables", 1_000_000, count),
    CaseOption("dead_letters", ("backlog",), "dead letters in the tables", 100_000, count),
    CaseOption("log", ("backlog",), "jobs that have ended, in the job log", 1_000_000, count),
    CaseOption("foreign", ("backlog",), "executable jobs of another deployment, before ours", 200_000, count),
    CaseOption("blocked", ("backlog", "permits"), "jobs that wait for a permit", 100_000, count),
    CaseOption("instances", ("processes",), "other instances that wait; ten times as many have ended", 100_000, count),
    CaseOption("seconds", ("idle",), "how long each run is", 30),
    CaseOption("payload", ("payload",), "kilobytes of arguments of each job", 1024),
    CaseOption("wait", ("async",), "seconds that each job waits", 2, seconds),
    CaseOption("broker_url", ("broker",), "address of the broker; its queues are the benchmark's own", None, str),
    CaseOption("nodes", ("cluster",), "nodes, each a process of its own", _NODES),
    CaseOption("strategy", ("cluster",), "how they acquire", ALL, str, (*STRATEGIES, ALL)),
    CaseOption("seed", ("cluster",), "of the jobs' service times and priorities", 1, int),
)


def add_options(parser: ArgumentParser) -> None:
    """Declare all of them."""
    add = parser.add_argument
    add("case", choices=CASES, metavar="CASE", help="What to measure; see below.")
    add("--engine", metavar="ALIAS", help="The engine, a database alias (default: the first of JOBEXEC['ENGINES']).")
    add("--jobs", type=positive, metavar="N", help="Jobs in each run (default: depends on the case).")
    runs = "Runs of each contender, in turn (default: depends on the case, mostly 3)."
    add("--repeat", type=positive, metavar="N", help=runs)
    add("--threads", type=int, metavar="N", help="Worker threads (setting THREADS).")
    add("--queue-size", type=int, metavar="N", help="Jobs that may wait for a thread (setting QUEUE_SIZE).")
    page = f"Jobs locked in one round, ours and raw (default: MAX_JOBS_PER_ACQUISITION and {RAW_PAGE})."
    add("--page", type=positive, metavar="N", help=page)
    levels = ("none", "failures", "activity", "full")
    add("--history", choices=levels, help="What the job log keeps (default: failures).")
    add("--json", action="store_true", help="Print one JSON object instead of a table.")
    add("--svg", type=Path, metavar="PATH", help="Also write a chart.")
    add("--force", action="store_true", help="Run although executors are alive or jobs are due.")
    group = parser.add_argument_group("options of single cases")
    for option in CASE_OPTIONS:
        option.add_to(group)
    # How this command starts its own nodes.
    add("--node-line", type=int, help=SUPPRESS)


def plan_of(options: Mapping[str, Any]) -> Plan:
    """What the command line asks for. Raises BenchError, which names the option, and InvalidSettings."""
    case = CASES[options["case"]]
    _check(case, options)
    alias = options["engine"] or next(iter(get_settings().engines))
    overrides = _overrides(case, options)
    settings = build_settings(alias, **overrides)
    check_engines(settings)
    values: dict[str, Any] = {
        "alias": alias,
        "jobs": options["jobs"] or case.default_jobs,
        "repeat": options["repeat"] or case.default_repeat,
        "settings": settings,
        "raw_page": options["page"] or RAW_PAGE,
        "overrides": overrides,
        "options": _case_options(case, options),
    }
    if case is not Cluster:
        return Plan(**values)
    given = values["options"]
    return ClusterPlan(**values, nodes=given["nodes"], strategies=chosen(given["strategy"]), seed=given["seed"])


def _overrides(case: type[Case], options: Mapping[str, Any]) -> dict[str, Any]:
    given = {
        "threads": options["threads"],
        "queue_size": options["queue_size"],
        "max_jobs_per_acquisition": options["page"],
        "history_level": options["history"],
    }
    defaults = {"history_level": "failures", **case.default_settings}
    missing = {name: value for name, value in defaults.items() if given.get(name) is None}
    return {**given, **missing, **case.own_settings}


def _case_options(case: type[Case], options: Mapping[str, Any]) -> dict[str, Any]:
    mine = [option for option in CASE_OPTIONS if case.name in option.cases]
    return {option.name: option.default if options[option.name] is None else options[option.name] for option in mine}


def _check(case: type[Case], options: Mapping[str, Any]) -> None:
    for option in CASE_OPTIONS:
        if options[option.name] is not None and case.name not in option.cases:
            cases = f"{'case' if len(option.cases) == 1 else 'cases'} {' and '.join(option.cases)}"
            raise BenchError(f"{option.flag}: only for the {cases}, got {case.name}.")
    if options["history"] is not None and "history_level" in case.own_settings:
        raise BenchError(f"--history: the case {case.name} has levels of its own.")
    folder = options["svg"].parent if options["svg"] else None
    if folder and not os.access(folder, os.W_OK):  # better now than after the last run
        raise BenchError(f"--svg: the folder {folder} is not there or cannot be written to.")
