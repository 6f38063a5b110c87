"""`python -m demo_project.benchmarks.compare`: two commits side by side. No figure of a machine is judged here."""

import subprocess
import sys
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace

import pytest

from demo_project.benchmarks import compare
from demo_project.benchmarks.cases import CASES
from demo_project.benchmarks.options import CASE_OPTIONS

ROOT = compare.ROOT

#: An unpacked source distribution has no earlier commit.
of_a_checkout = pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a checkout of git")


def report(ours, raw=100.0, unit="jobs/s", cpu=10.0, server=5.0):
    """What `jobbench --json` prints, as far as it is read."""
    runs = {
        "ours": {
            "cpu_us_per_job": {"median": cpu},
            "server_cpu_us_per_job": {"median": server} if server is not None else None,
        }
    }
    return {"ours": ours, "raw": raw, "ratio": ours / raw, "details": {"unit": unit, "runs": runs}}


def test_a_lower_rate_and_a_longer_time_cost_more():
    assert compare.costs(report(50), report(40)) == pytest.approx({"time": 1.25, "beside raw": 1.25, "CPU": 1.0})
    slower = compare.costs(report(2, unit="ms"), report(3, unit="ms"))
    assert slower == pytest.approx({"time": 1.5, "beside raw": 1.5, "CPU": 1.0})


def test_more_queries_cost_more():
    idle = compare.costs(report(0.2, unit="queries/s"), report(0.3, unit="queries/s"))
    assert idle == pytest.approx({"time": 1.5, "beside raw": 1.5, "CPU": 1.0})


def test_the_cases_that_are_compared_are_cases_and_have_their_options():
    options = {option.flag: option.cases for option in CASE_OPTIONS}
    for case, given in compare.CASES.items():
        assert case in CASES
        for flag in given[::2]:
            assert flag == "--jobs" or case in options[flag]


class Sides:
    """Two checkouts whose measurements are made up: a report, or what went wrong."""

    def __init__(self, **told):
        self.told = told
        self.measured = []

    @contextmanager
    def __call__(self, base, server):
        yield tuple(SimpleNamespace(tree=name, measure=partial(self.measure, name)) for name in ("old", "new"))

    def measure(self, name, case, options):
        self.measured.append((name, case, *options))
        told = self.told.get(f"{name}_{case}", report(100))
        if isinstance(told, Exception):
            raise told
        return told


def run(monkeypatch, sides, *arguments):
    """The exit code and the lines of a comparison of three cases, one pair of each."""
    cases = {"drain": (), "idle": ("--seconds", "10"), "batch": ()}
    monkeypatch.setattr(compare, "sides", sides)
    monkeypatch.setattr(compare, "CASES", cases)
    lines = []
    given = compare.parser().parse_args(["v1", *arguments, "--pairs", "1"])
    given.options = ["--jobs", "5"]
    return compare.compare(given, lines.append), lines


def test_a_case_that_fails_does_not_keep_the_others_back(monkeypatch, capsys):
    sides = Sides(new_drain=compare.CompareError("no drain today"), new_batch=report(50))
    code, lines = run(monkeypatch, sides)
    assert (code, capsys.readouterr().err) == (2, "no drain today\n")
    assert sides.measured[2:4] == [
        ("old", "idle", "--seconds", "10", "--jobs", "5"),
        ("new", "idle", *sides.measured[3][2:]),
    ]
    assert lines[-1] == "Slower than v1: batch"


def test_a_case_that_has_lost_makes_it_fail(monkeypatch):
    assert run(monkeypatch, Sides(new_batch=report(50)))[0] == 1
    assert run(monkeypatch, Sides())[0] == 0


def test_a_case_that_the_earlier_commit_lacks_is_left_out(monkeypatch):
    lacks = compare.UsageError("invalid choice: 'idle'")
    code, lines = run(monkeypatch, Sides(old_idle=lacks, new_batch=report(50)))
    assert code == 1
    assert "idle          not known to v1: invalid choice: 'idle'" in lines


@pytest.mark.parametrize(("arguments", "side"), [([], "new"), (["idle"], "old")])
def test_a_case_that_this_checkout_lacks_or_that_was_asked_for_is_an_error(monkeypatch, capsys, arguments, side):
    lacks = compare.UsageError("invalid choice: 'idle'")
    assert run(monkeypatch, Sides(**{f"{side}_idle": lacks}), *arguments)[0] == 2
    assert "invalid choice" in capsys.readouterr().err


def test_the_processor_of_the_server_counts_where_it_is_known():
    assert compare.costs(report(50), report(50, cpu=15, server=15))["CPU"] == pytest.approx(2.0)
    assert compare.costs(report(50, server=None), report(50, cpu=20, server=None))["CPU"] == pytest.approx(2.0)
    assert "CPU" not in compare.costs(report(50, cpu=0, server=None), report(50))


@pytest.mark.parametrize(
    ("times", "lost"),
    [
        ([1.2, 1.2, 1.2, 1.2], True),
        ([1.11, 1.06, 1.2, 1.3], True),
        ([1.09, 1.08, 1.07, 1.09], False),  # a little
        ([1.0, 1.0, 3.0, 3.0, 3.0], False),  # in too few pairs
        ([0.5, 0.6, 0.7, 9.0], False),
    ],
)
def test_a_case_has_lost_in_the_median_and_in_most_pairs(times, lost):
    assert compare.has_lost([{"time": each} for each in times], limit=0.1) is lost
    assert compare.has_lost([{"time": 1.0, "CPU": each} for each in times], limit=0.1) is lost
    assert not compare.has_lost([{"time": 1.0, "beside raw": each} for each in times], limit=0.1), "raw is noise, too"


def test_the_table():
    pairs = [{"time": 1.3, "CPU": 1.0}, {"time": 1.2, "CPU": 0.9}, {"time": 1.5, "CPU": 1.1}]
    assert list(compare.lines_of("drain", pairs, 0.1)) == [
        "drain         time                    1.30    1.20    1.50  lost",
        "              CPU                     1.00    0.90    1.10",
    ]


def test_what_stands_beside_ours_is_shown_and_not_judged():
    old, new = report(50), report(50)
    for made, flow, raw in ((old, 6.0, 1.0), (new, 9.0, 2.0)):
        made["details"]["unit"] = "ms"
        made["details"]["runs"] |= {"flow": {"median": flow}, "raw": {"median": raw}, "raw, start": {"median": raw}}
    new["details"]["runs"]["process"] = {"median": 1.0}  # the earlier commit has not measured it
    pairs = [compare.costs(old, new)]
    assert not compare.has_lost(pairs, limit=0.1)
    assert list(compare.lines_of("chain", pairs, 0.1))[2:] == [
        "              CPU                     1.00    1.00    1.00",
        "              flow                    1.50    1.50    1.50",
    ]


def call(*arguments):
    command = [sys.executable, "-m", "demo_project.benchmarks.compare", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["no-such-commit"], "no-such-commit"),
        (["HEAD", "drain", "--pairs", "0"], "argument --pairs: expected a number of at least 1, got '0'"),
        ([], "BASE"),
    ],
)
@pytest.mark.gate
def test_what_is_wrong_is_said(arguments, told):
    ended = call(*arguments)
    assert ended.returncode == 2
    assert told in ended.stderr
    assert "Traceback" not in ended.stderr


@of_a_checkout
@pytest.mark.slow
@pytest.mark.nightly
def test_a_commit_beside_this_checkout():
    ended = call("HEAD", "enqueue", "--pairs", "1", "--limit", "99", "--server", "sqlite", "--", "--jobs", "20")
    assert (ended.returncode, ended.stderr) == (0, "")
    head, columns, *rows = ended.stdout.splitlines()
    assert head.startswith("1 pairs, this checkout to HEAD")
    assert columns.split() == ["case", "figure", "median", "min", "max"]
    assert [row.split()[0] for row in rows] == ["enqueue", "beside", "CPU"]


@of_a_checkout
@pytest.mark.slow
@pytest.mark.nightly
def test_an_error_of_a_case_is_told_and_nothing_is_left():
    ended = call("HEAD", "no-such-case", "--server", "sqlite")
    assert ended.returncode == 2
    assert "invalid choice: 'no-such-case'" in ended.stderr
