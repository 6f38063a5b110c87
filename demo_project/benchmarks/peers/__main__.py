"""Measures all contenders in turn, and prints a table."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

from demo_project import postgresql_server
from demo_project.benchmarks import peers

ROOT = Path(__file__).resolve().parents[3]


@dataclass(frozen=True, slots=True)
class Contender:
    """A row of the table: its module here, the package that it needs, and its part of the environment."""

    name: str
    module: str
    package: str
    redis: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)


_SITE = {"DJANGO_SETTINGS_MODULE": "demo_project.benchmarks.peers.site"}
CONTENDERS = (
    Contender("jobexec", "jobs", "jobexec", environment=_SITE),
    Contender("jobexec, history failures", "jobs", "jobexec", environment=_SITE | {"PEERS_HISTORY": "failures"}),
    Contender("pgqueuer", "pgqueuer", "pgqueuer"),
    Contender("procrastinate", "procrastinate", "procrastinate"),
    Contender(
        "django-tasks-db", "django_tasks_db", "django_tasks_db", environment=_SITE | {"PEERS_SITE": "django_tasks_db"}
    ),
    Contender("Celery", "celery", "celery", redis=True),
    Contender("Dramatiq", "dramatiq", "dramatiq", redis=True),
    Contender("huey", "huey", "huey", redis=True),
)

#: The cases, how many jobs each has, and the column of each figure.
CASES = {"enqueue": 2000, "drain": 20000, "wait": 2000, "latency": 100}
COLUMNS = {
    ("enqueue", "rate"): "enqueue/s",
    ("drain", "rate"): "drain/s",
    ("wait", "rate"): "20 ms/s",
    ("latency", "p50"): "p50 ms",
    ("latency", "p99"): "p99 ms",
}
#: The part of the usual number of jobs for those that take long, so that a run does not take many minutes.
_SLOW = {"django-tasks-db": 0.1, "procrastinate": 0.25, "Celery": 0.25}


def measure(contender: Contender, case: str, jobs: int, base: Mapping[str, str]) -> dict[str, Any]:
    """Measure one case of one contender. Raises RuntimeError with what it said."""
    with tempfile.TemporaryDirectory(prefix="jobexec-peers-") as folder:
        environment = {**os.environ, **base, **contender.environment, "PEERS_JOURNAL": f"{folder}/journal"}
        count = max(2, round(jobs * _SLOW.get(contender.name, 1)))
        command = [sys.executable, "-m", "demo_project.benchmarks.peers.turn", contender.module, case, str(count)]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1])
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


#: By contender, then by case and figure.
Results = dict[str, dict[tuple[str, str], list[float]]]


def table(results: Results) -> Iterator[str]:
    """A line for each contender, with medians."""
    width = max(map(len, results)) + 2
    yield f"{'':<{width}}" + "".join(f"{title:>12}" for title in COLUMNS.values())
    for name, figures in results.items():
        cells = [_cell(figures.get(key, ())) for key in COLUMNS]
        yield f"{name:<{width}}" + "".join(f"{cell:>12}" for cell in cells)


def _cell(values: Sequence[float]) -> str:
    if not values:
        return "-"
    value = median(values)
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"


def parser() -> ArgumentParser:
    """The options of the command."""
    made = ArgumentParser(
        prog="python -m demo_project.benchmarks.peers",
        description=peers.__doc__,
        formatter_class=RawDescriptionHelpFormatter,
    )
    add = made.add_argument
    add("--server", default="", help="postgresql://…, an empty database (default: a server of its own, without fsync)")
    add("--redis", default="redis://127.0.0.1:6379/13", help="address of a Redis database (default: %(default)s)")
    add("--threads", type=int, default=10, help="threads, or what runs at the same time (default: 10)")
    add("--repeat", type=int, default=3, help="rounds; in each, all contenders take their turn (default: 3)")
    add("--part", type=float, default=1.0, help="part of the usual number of jobs (default: 1)")
    add("--case", action="append", choices=CASES, help="only this case; may be given again")
    add("--only", action="append", choices=[each.name for each in CONTENDERS], help="only this contender; may be again")
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; exit code 1 if a contender failed. Ctrl-C ends it with what it has measured."""
    options = parser().parse_args(argv)
    chosen = [each for each in CONTENDERS if not options.only or each.name in options.only]
    for each in [each for each in chosen if find_spec(each.package) is None]:
        print(f'{each.name}: not installed; pip install -e ".[peers]"', file=sys.stderr)
        chosen.remove(each)
    server = options.server or postgresql_server.start()[0]
    base = {"PEERS_DATABASE": server, "PEERS_REDIS": options.redis, "PEERS_THREADS": str(options.threads)}
    results: Results = {each.name: {} for each in chosen}
    told: dict[str, str] = {}
    failed = False
    turns = [(case, each) for _ in range(options.repeat) for case in options.case or CASES for each in chosen]
    with suppress(KeyboardInterrupt):
        for case, each in turns:
            try:
                found = measure(each, case, max(2, round(CASES[case] * options.part)), base)
            except RuntimeError as error:
                failed = True
                print(f"{each.name}, {case}: {error}", file=sys.stderr)
                continue
            versions = ", ".join(f"{package} {version(package)}" for package in found.pop("packages"))
            told[each.name] = f"{versions}; {found.pop('settings')}"
            for figure, value in found.items():
                results[each.name].setdefault((case, figure), []).append(value)
    print("\n".join(table(results)))
    print(f"\nMedians of {options.repeat} rounds. Python {platform.python_version()}, {os.cpu_count()} processors.")
    print("\n".join(f"{name}: {text}" for name, text in told.items()))
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())
