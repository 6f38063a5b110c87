"""Compare the speed of this checkout with that of an earlier commit.

    python -m demo_project.benchmarks.compare v0.1.0 drain latency --pairs 7

Both run the same cases of ``manage.py jobbench`` in turn, each with a database of its own on the same server: the
speed of a machine drifts, so only figures of the same minute are compared. Exit code 1 if a case has lost, 2 if one
cannot be measured.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from argparse import ArgumentParser, ArgumentTypeError, Namespace, RawDescriptionHelpFormatter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from demo_project import postgresql_server

ROOT = Path(__file__).resolve().parents[2]
#: The cases that are measured if none are named, with options that keep them short.
CASES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("drain", "history", "exclusive", "atomic", "retries", "waiting", "latency", "enqueue"), ()),
    **dict.fromkeys(("enqueue_many", "flows", "resource", "children", "chain", "permits", "results", "timers"), ()),
    "handlers": ("--jobs", "10000"),
    "payload": ("--jobs", "100"),
    "batch": ("--jobs", "5000"),
    "processes": ("--instances", "1000"),
    "async": ("--jobs", "5000"),
    "external": ("--jobs", "2000", "--gateways", "none"),
    "backlog": (
        *("--timers", "50000", "--dead-letters", "10000", "--log", "50000"),
        *("--foreign", "20000", "--blocked", "10000"),
    ),
    "bloat": ("--jobs", "50000"),
    "idle": ("--seconds", "10"),
}
#: The part of the pairs that must be worse too, so that no single bad minute makes a loss.
MOST = 0.75
_FIGURES = ("time", "beside raw", "CPU")
_WIDTH = 20
_USAGE = 2


class CompareError(Exception):
    """The comparison cannot be made; the message says why."""


class UsageError(CompareError):
    """A side does not know a command, a case or an option."""


class UnknownError(CompareError):
    """The earlier commit does not know a case that is compared by default, or an option of it."""


@dataclass(frozen=True, slots=True)
class Side:
    """A checkout and its database."""

    tree: Path
    database: str

    def run(self, *arguments: str) -> str:
        """Run a command of ``manage.py``; returns what it prints."""
        environment = os.environ | {
            "PYTHONPATH": str(self.tree),
            "DJANGO_SETTINGS_MODULE": "demo_project.settings",
            "DEMO_DATABASE": self.database,
        }
        command = [sys.executable, "manage.py", *arguments]
        done = subprocess.run(command, cwd=self.tree, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
            kind = UsageError if done.returncode == _USAGE else CompareError
            raise kind(f"manage.py {' '.join(arguments)} in {self.tree}: {lines[-1]}")
        return done.stdout

    def measure(self, case: str, options: Sequence[str]) -> Mapping[str, Any]:
        """Run a case once."""
        report: dict[str, Any] = json.loads(self.run("jobbench", case, "--json", "--repeat", "1", *options))
        return report


def costs(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, float]:
    """How much more the new run of a pair costs: 1.1 is a tenth more. Figures that a run lacks are left out.

    Those of ``ours``, and the time of each other contender that is not raw SQL, by its name.
    """
    rate = new["details"]["unit"] == "jobs/s"

    def worse(before: float, after: float) -> float:
        return before / after if rate else after / before

    found = {"time": worse(old["ours"], new["ours"])}
    if old["ratio"] and new["ratio"]:
        found["beside raw"] = worse(old["ratio"], new["ratio"])
    before, after = _cpu(old), _cpu(new)
    if before and after:
        found["CPU"] = after / before
    runs, earlier = new["details"]["runs"], old["details"]["runs"]
    for name in runs.keys() & earlier.keys() - {"ours"}:
        if not name.startswith("raw") and earlier[name]["median"] and runs[name]["median"]:
            found[name] = worse(earlier[name]["median"], runs[name]["median"])
    return found


def _cpu(report: Mapping[str, Any]) -> float:
    """Microseconds per job, of our processes and of the database server."""
    ours = report["details"]["runs"]["ours"]
    parts = [ours["cpu_us_per_job"], ours["server_cpu_us_per_job"]]
    return float(sum(part["median"] for part in parts if part))


def has_lost(pairs: Sequence[Mapping[str, float]], limit: float) -> bool:
    """Whether the time or the CPU of a case has grown by more than ``limit``: in the median, and in most pairs."""
    for figure in ("time", "CPU"):
        values = [pair[figure] for pair in pairs if figure in pair]
        if values and median(values) > 1 + limit:
            worse = sum(value > 1 + limit / 2 for value in values)
            if worse >= MOST * len(values):
                return True
    return False


def lines_of(case: str, pairs: Sequence[Mapping[str, float]], limit: float) -> Iterator[str]:
    """A line of the table for each figure."""
    others = sorted({figure for pair in pairs for figure in pair}.difference(_FIGURES))
    for number, figure in enumerate((*_FIGURES, *others)):
        values = [pair[figure] for pair in pairs if figure in pair]
        if values:
            spread = "".join(f"{value:>8.2f}" for value in (median(values), min(values), max(values)))
            verdict = "  lost" if number == 0 and has_lost(pairs, limit) else ""
            yield f"{case if number == 0 else '':<14}{figure:<{_WIDTH}}{spread}{verdict}"


@contextmanager
def sides(base: str, server: str) -> Iterator[tuple[Side, Side]]:
    """The old and the new side, migrated. Raises CompareError."""
    with tempfile.TemporaryDirectory(prefix="jobexec-compare-") as folder:
        old_tree = Path(folder) / "tree"
        _check_out(base, old_tree)
        with _databases(server, Path(folder)) as (old, new):
            both = Side(old_tree, old), Side(ROOT, new)
            for side in both:
                side.run("migrate", "-v", "0")
            yield both


def _check_out(base: str, tree: Path) -> None:
    git = shutil.which("git")
    if git is None:
        raise CompareError("git is not installed")
    done = subprocess.run([git, "archive", base], cwd=ROOT, capture_output=True, check=False)
    if done.returncode:
        raise CompareError(f"{base}: {done.stderr.decode(errors='replace').strip()}")
    with tarfile.open(fileobj=BytesIO(done.stdout)) as archive:
        archive.extractall(tree, filter="data")


@contextmanager
def _databases(server: str, folder: Path) -> Iterator[tuple[str, str]]:
    """The addresses of two empty databases, which are dropped at the end."""
    if server == "sqlite":
        yield str(folder / "old.sqlite3"), str(folder / "new.sqlite3")
        return
    import psycopg

    stop = None
    if not server:
        server, stop = postgresql_server.start()
    names = [f"jobexec_compare_{os.getpid()}_{side}" for side in ("old", "new")]
    try:
        with psycopg.connect(server, autocommit=True) as connection:
            for name in names:
                connection.execute(f"CREATE DATABASE {name}".encode())
        try:
            old, new = (urlunsplit(urlsplit(server)._replace(path=f"/{name}")) for name in names)
            yield old, new
        finally:
            with psycopg.connect(server, autocommit=True) as connection:
                for name in names:
                    connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())
    except psycopg.Error as error:
        raise CompareError(f"{server}: {error}") from error
    finally:
        if stop is not None:
            stop()


def compare(arguments: Namespace, write: Any = print) -> int:
    """Measure the cases and write a table; returns the exit code. A case that fails does not keep the others back."""
    lost, failed = [], False
    with sides(arguments.base, arguments.server) as both:
        write(
            f"{arguments.pairs} pairs, this checkout to {arguments.base}; 1.10 is a tenth slower, or a tenth more CPU"
        )
        write(f"{'case':<14}{'figure':<{_WIDTH}}{'median':>8}{'min':>8}{'max':>8}")
        for case in arguments.cases or CASES:
            try:
                pairs = _pairs(case, both, arguments)
            except UnknownError as error:  # it was added since
                write(f"{case:<14}not known to {arguments.base}: {error}")
                continue
            except CompareError as error:
                print(error, file=sys.stderr)
                failed = True
                continue
            for line in lines_of(case, pairs, arguments.limit):
                write(line)
            if has_lost(pairs, arguments.limit):
                lost.append(case)
    if lost:
        write(f"Slower than {arguments.base}: {', '.join(lost)}")
    return 2 if failed else 1 if lost else 0


def _pairs(case: str, both: tuple[Side, Side], arguments: Namespace) -> list[dict[str, float]]:
    old, new = both
    options = (*CASES.get(case, ()), *arguments.options)
    pairs = []
    for number in range(arguments.pairs):
        order = (old, new) if number % 2 == 0 else (new, old)
        reports = {
            side.tree: _measure(side, case, options, may_lack=side is old and not arguments.cases) for side in order
        }
        pairs.append(costs(reports[old.tree], reports[new.tree]))
    return pairs


def _measure(side: Side, case: str, options: Sequence[str], *, may_lack: bool) -> Mapping[str, Any]:
    try:
        return side.measure(case, options)
    except UsageError as error:
        if may_lack:
            raise UnknownError(str(error)) from error
        raise


def _positive(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise ArgumentTypeError(f"expected a number of at least 1, got {text!r}")
    return int(text)


def parser() -> ArgumentParser:
    """The options of the command."""
    made = ArgumentParser(
        prog="python -m demo_project.benchmarks.compare",
        description=__doc__,
        formatter_class=RawDescriptionHelpFormatter,
        epilog="What follows -- are options of jobbench that both commits know: ... v0.1.0 external -- --jobs 640",
    )
    made.add_argument("base", metavar="BASE", help="the commit, branch or tag to compare with")
    made.add_argument("cases", metavar="CASE", nargs="*", help=f"cases of jobbench (default: {', '.join(CASES)})")
    made.add_argument("--pairs", type=_positive, default=5, help="runs of each side, in turn (default: 5)")
    made.add_argument("--limit", type=float, default=0.1, help="the part that a case may lose (default: 0.1)")
    text = "postgresql://…, or sqlite (default: a PostgreSQL server of its own, without fsync)"
    made.add_argument("--server", default="", help=text)
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command."""
    given = list(sys.argv[1:] if argv is None else argv)
    end = given.index("--") if "--" in given else len(given)
    arguments = parser().parse_args(given[:end])
    arguments.options = given[end + 1 :]
    try:
        return compare(arguments)
    except CompareError as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    raise SystemExit(main())
