"""The tiers themselves: what runs where, in which order, and for how long."""

from types import SimpleNamespace

import pytest

from tests.support.suite import budget, order, tiers
from tests.support.suite.tiers import TIERS

EVERY, SLOW, SMOKE = pytest.mark.every_database, pytest.mark.slow, pytest.mark.smoke


def a_test(path, *marks, name="test_x"):
    """As much of a test as is asked here."""
    found = {mark.name: mark for mark in marks}
    asked = {"get_closest_marker": found.get, "iter_markers": lambda: iter(marks)}
    return SimpleNamespace(path=tiers._TESTS / path, nodeid=f"tests/{path}::{name}", **asked)


@pytest.mark.parametrize(
    ("tier", "path", "marks", "expected"),
    [
        ("quick", "executor/test_x.py", [], ["postgresql"]),
        ("quick", "executor/test_x.py", [EVERY], ["sqlite", "postgresql"]),
        ("quick", "operations/test_x.py", [], ["postgresql"]),
        ("gate", "executor/test_x.py", [], ["postgresql"]),
        ("gate", "executor/test_x.py", [EVERY], ["sqlite", "postgresql", "mariadb"]),
        ("gate", "operations/test_x.py", [], ["sqlite", "postgresql", "mariadb"]),
        ("gate", "operations/test_x.py", [SLOW], ["postgresql"]),
        ("gate", "plans/test_x.py", [SLOW], ["postgresql"]),
        ("compat", "unit/test_x.py", [EVERY], ["sqlite"]),
        ("compat", "executor/test_x.py", [SMOKE], ["postgresql"]),
        ("nightly", "executor/test_x.py", [], ["sqlite", "postgresql", "mariadb"]),
    ],
)
def test_the_databases_of_a_test(monkeypatch, tier, path, marks, expected):
    monkeypatch.setattr(tiers, "NAMED", False)
    tier = TIERS[tier]
    assert tier.databases_for(a_test(path, *marks), tier.databases, every=False) == expected
    assert tier.databases_for(a_test(path, *marks), ["mariadb"], every=False) == ["mariadb"]


@pytest.mark.parametrize(
    ("tier", "path", "possible", "others"),
    [
        ("gate", "operations/test_x.py", ["sqlite", "postgresql", "mariadb"], {"sqlite", "mariadb"}),
        ("gate", "operations/rows/test_x.py", ["sqlite", "postgresql", "mariadb"], {"sqlite", "mariadb", "portable"}),
        ("gate", "operations/test_x.py", ["postgresql", "mariadb"], {"mariadb"}),
    ],
)
def test_the_gate_runs_a_test_on_postgresql_and_in_turn_on_one_of_the_others(monkeypatch, tier, path, possible, others):
    monkeypatch.setattr(tiers, "NAMED", False)
    found = set()
    for number in range(50):
        forms = TIERS[tier].forms_for(a_test(path, name=f"test_{number}"), possible, every=False)
        assert forms == TIERS[tier].forms_for(a_test(path, name=f"test_{number}"), possible, every=False)
        assert len(forms) == 2
        found.update(forms)
    assert found == {"postgresql", *others}


@pytest.mark.parametrize(
    ("tier", "named", "path", "possible", "expected"),
    [
        ("gate", False, "operations/test_x.py", ["sqlite", "mariadb"], ["sqlite", "mariadb"]),
        (
            "gate",
            True,
            "operations/test_x.py",
            ["sqlite", "postgresql", "mariadb"],
            ["sqlite", "postgresql", "mariadb"],
        ),
        (
            "nightly",
            False,
            "operations/test_x.py",
            ["sqlite", "postgresql", "mariadb"],
            ["sqlite", "postgresql", "mariadb", "portable"],
        ),
        ("quick", False, "operations/rows/test_x.py", ["sqlite", "postgresql"], ["postgresql"]),
    ],
)
def test_who_has_no_turns(monkeypatch, tier, named, path, possible, expected):
    monkeypatch.setattr(tiers, "NAMED", named)
    assert TIERS[tier].forms_for(a_test(path), possible, every=False) == expected


def test_who_names_the_databases_has_every_test_on_them(monkeypatch):
    monkeypatch.setattr(tiers, "NAMED", True)
    found = TIERS["quick"].databases_for(a_test("executor/test_x.py"), ["sqlite", "mariadb"], every=False)
    assert found == ["sqlite", "mariadb"]


@pytest.mark.parametrize(
    ("marks", "expected"),
    [
        ([], {"quick", "gate", "nightly"}),
        ([SLOW], {"gate", "nightly"}),
        ([pytest.mark.browser], {"gate", "nightly"}),
        ([pytest.mark.nightly], {"nightly"}),
        ([SMOKE], {"quick", "compat", "gate", "nightly"}),
    ],
)
def test_what_a_marker_leaves_to_a_later_tier(marks, expected):
    test = a_test("executor/test_x.py", *marks)
    assert {name for name, tier in TIERS.items() if tier.runs(test, frozenset())} == expected


def test_a_test_that_is_named_by_its_file_runs_in_any_tier():
    test = a_test("chaos/test_chaos.py", SLOW)
    assert TIERS["quick"].runs(test, tiers.files(["tests/chaos/test_chaos.py::test_x"]))
    assert not TIERS["quick"].runs(test, tiers.files(["tests/chaos"]))


@pytest.mark.parametrize(("tier", "count"), [("quick", 3), ("compat", 2)])
def test_a_file_without_a_test_of_the_tier_is_not_read(tier, count):
    files = ["unit/suite/test_tiers.py", "process/test_signals.py", "chaos/test_chaos.py"]
    assert [file for file in files if TIERS[tier].reads(tiers._TESTS / file)] == files[:count]


def test_an_unknown_tier_is_refused(monkeypatch):
    monkeypatch.setenv("JOBEXEC_TEST_TIER", "weekly")
    with pytest.raises(RuntimeError, match="JOBEXEC_TEST_TIER: unknown tier 'weekly'; known are quick, compat"):
        tiers.current()


def test_some_are_left_to_the_gate():
    first, *later, fourth = tiers.some([1, pytest.param(2, id="two"), pytest.param(3, marks=SLOW), 4], 3)
    assert (first, fourth) == (1, 4)
    assert [case.values for case in later] == [(2,), (3,)]
    assert [[mark.name for mark in case.marks] for case in later] == [["gate"], ["slow", "gate"]]
    assert later[0].id == "two"


def test_some_run_in_the_gate_and_the_others_at_night():
    marks = [getattr(each, "marks", []) for each in tiers.some(range(7), 6, gate=3)]
    assert [[mark.name for mark in each] for each in marks] == [
        [], ["nightly"], ["nightly"], ["gate"], ["nightly"], ["nightly"], [],
    ]  # fmt: skip


def test_some_are_left_to_the_nightly_run():
    first, second = tiers.some([1, 2], 2, later="nightly")
    assert first == 1 and [mark.name for mark in second.marks] == ["nightly"]


@pytest.mark.parametrize(("processes", "slow", "quick"), [(1, 3, 5), (4, 0, 9), (4, 1, 9), (4, 7, 30), (4, 9, 0)])
def test_each_process_begins_with_its_share_of_the_slow_tests(monkeypatch, processes, slow, quick):
    monkeypatch.setenv("PYTEST_XDIST_WORKER_COUNT", str(processes))
    items = [*(a_test("x.py") for _ in range(quick)), *(a_test("x.py", SLOW) for _ in range(slow))]
    before = set(map(id, items))
    order.slow_first(items)
    assert set(map(id, items)) == before and len(items) == slow + quick
    for number in range(processes):
        part = items[number * len(items) // processes : (number + 1) * len(items) // processes]
        marked = [test.get_closest_marker("slow") is not None for test in part]
        assert sum(marked) in (slow // processes, -(-slow // processes))
        if quick >= slow:
            assert marked == sorted(marked, reverse=True)


@pytest.mark.parametrize(
    ("minutes", "busy", "before", "after"),
    [(8.9, 0.0, 0, 0), (9.1, 0.0, 0, 1), (9.1, 0.0, 2, 2), (9.1, 1.5, 0, 0)],
)
def test_a_run_that_takes_half_as_much_again_fails_on_an_idle_machine(monkeypatch, minutes, busy, before, after):
    times = iter([0.0, 60 * minutes])
    monkeypatch.setattr(budget, "time", SimpleNamespace(monotonic=lambda: next(times)))
    monkeypatch.setattr(budget, "_busy_cores", lambda: busy)
    monkeypatch.setattr(tiers, "current", lambda: TIERS["quick"])
    session = SimpleNamespace(exitstatus=before)
    plugin = budget.Budget(SimpleNamespace(option=SimpleNamespace(durations=None)))
    plugin.pytest_sessionstart()
    plugin.pytest_sessionfinish(session)
    assert session.exitstatus == after
    said = []
    reporter = SimpleNamespace(section=lambda text, sep: said.append(text), line=lambda text, red: said.append(text))
    plugin.pytest_terminal_summary(reporter)
    assert said[0].startswith("tier quick: ")
    assert len(said) == (1 if minutes < 9 else 2)
