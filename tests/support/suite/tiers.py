"""The tiers of the suite: the tests of a run, their databases, and the time limit.

`pytest` alone is the tier quick. The environment variable JOBEXEC_TEST_TIER names another one; `.ci/run` and
`.ci/nightly` set it. CONTRIBUTING.md has the table.

A test belongs to every tier unless a marker leaves it to a later one: `slow`, `browser` and `gate` to the gate,
`nightly` to the nightly run. A test with the argument `alias` runs on one database, PostgreSQL if it is available, or
on each of the tier's databases if it is marked `every_database`. The gate treats the folders `SQL` as
marked, and runs a test of several databases on PostgreSQL and on one of the others.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

# The processes that tests start do without pytest, and their settings import this module.
if TYPE_CHECKING:
    import pytest

_TESTS = Path(__file__).resolve().parents[2]

NAMES = ("sqlite", "postgresql", "mariadb")
#: PostgreSQL, as if it were a database that jobexec does not know.
PORTABLE = "portable"

#: With JOBEXEC_TEST_DATABASES, every test runs on the databases named there.
NAMED = bool(os.environ.get("JOBEXEC_TEST_DATABASES"))

#: Folders with tests of statements, locks and plans.
SQL = frozenset({"operations", "concurrency", "plans"})
#: Folders whose portable forms the gate also tests; the nightly run tests those of all operations.
_PORTABLE = ("operations/acquire/", "operations/rows/", "operations/settle/")
LATER = frozenset({"slow", "browser", "gate", "nightly"})


@dataclass(frozen=True)
class Tier:
    """A tier.

    `minutes` is its duration on an idle machine with two cores; a run that takes more than 1.5 times as long fails.
    `databases` are those used. `everywhere` are folders whose tests run on each of them; with None, all tests do.
    `leaves` are the markers of tests that a later tier runs. `only`, if it is not empty, limits the tier to these
    folders, on SQLite, and to the tests marked `smoke`, on PostgreSQL. With `slow_once`, slow tests run on one
    database. In the folders `portable`, tests also run in the portable forms. With `in_turn`, a test that would run on
    PostgreSQL and on several others, the portable forms among them, runs on PostgreSQL and on one of these: which one,
    its name decides, so that it is the same in each run. `examples` is the number of examples that Hypothesis tries in
    the tests of random schedules. Only a tier that `explores` lets it look for new ones; in the others they are the
    same in each run, so that no change fails by a fault that was there before.
    """

    name: str
    command: str
    minutes: float
    databases: tuple[str, ...]
    everywhere: frozenset[str] | None = frozenset()
    leaves: frozenset[str] = LATER
    only: frozenset[str] = frozenset()
    slow_once: bool = False
    in_turn: bool = False
    portable: tuple[str, ...] = ()
    examples: int = 25
    explores: bool = False

    def databases_for(self, test: pytest.Item, possible: Iterable[str], every: bool) -> list[str]:
        """Return those of these databases on which a test runs; `every`: the test names its databases itself."""
        found = [name for name in NAMES if name in possible]
        if self.slow_once and not NAMED and test.get_closest_marker("slow"):
            return [name for name in ["postgresql", *found] if name in found][:1]
        if NAMED or every or self.everywhere is None or _folder(test.path) in self.everywhere:
            return found
        if self.only:
            main = ["postgresql"] if test.get_closest_marker("smoke") else []
        elif test.get_closest_marker("every_database"):
            return found
        else:
            main = ["postgresql"]
        return [name for name in [*main, *found] if name in found][:1]

    def forms_for(self, test: pytest.Item, possible: Sequence[str], every: bool) -> list[str]:
        """Return what a test runs on: some of these databases, and perhaps `PORTABLE`."""
        found = self.databases_for(test, possible, every)
        if not every and self._runs_portable(test, possible):
            found.append(PORTABLE)
        others = [name for name in found if name != "postgresql"]
        if not self.in_turn or NAMED or len(others) < 2 or len(others) == len(found):
            return found
        chosen = others[crc32(test.nodeid.encode()) % len(others)]
        return [name for name in found if name in ("postgresql", chosen)]

    def _runs_portable(self, test: pytest.Item, possible: Iterable[str]) -> bool:
        if "postgresql" not in possible or test.get_closest_marker("fast_form"):
            return False
        return str(test.path.relative_to(_TESTS)).startswith(self.portable)

    def runs(self, test: pytest.Item, requested: Container[Path]) -> bool:
        """Whether the test belongs to this tier or is in one of the requested files."""
        if test.path in requested:
            return True
        markers = {marker.name for marker in test.iter_markers()}
        if not self.leaves.isdisjoint(markers):
            return False
        return not self.only or _folder(test.path) in self.only or "smoke" in markers

    def reads(self, file: Path) -> bool:
        """Whether a file of tests may have some of this tier."""
        return not self.only or _folder(file) in self.only or "mark.smoke" in file.read_text()


def _folder(file: Path) -> str:
    return file.relative_to(_TESTS).parts[0]


_TIERS = (
    Tier("quick", "pytest", 6, ("sqlite", "postgresql"), examples=10),
    Tier(
        "compat",
        "JOBEXEC_TEST_TIER=compat pytest",
        3,
        ("sqlite", "postgresql"),
        only=frozenset({"unit", "backends", "admin", "docs", "testing"}),
        examples=10,
    ),
    Tier(
        "gate",
        "bash .ci/run",
        15,
        NAMES,
        everywhere=SQL,
        leaves=frozenset({"nightly"}),
        slow_once=True,
        in_turn=True,
        portable=_PORTABLE,
        examples=15,
    ),
    Tier(
        "nightly",
        "bash .ci/nightly",
        90,
        NAMES,
        everywhere=None,
        leaves=frozenset(),
        portable=("operations/",),
        examples=300,
        explores=True,
    ),
)
TIERS = {tier.name: tier for tier in _TIERS}


def current() -> Tier:
    """Return the tier of this run. Raises RuntimeError for an unknown name."""
    name = os.environ.get("JOBEXEC_TEST_TIER") or "quick"
    if name not in TIERS:
        raise RuntimeError(f"JOBEXEC_TEST_TIER: unknown tier {name!r}; known are {', '.join(TIERS)}")
    return TIERS[name]


def files(arguments: Iterable[str]) -> frozenset[Path]:
    """Return the paths that these arguments of pytest name."""
    return frozenset(Path(argument.partition("::")[0]).resolve() for argument in arguments)


def some(cases: Iterable[Any], each: int, later: str = "gate", gate: int = 1) -> list[Any]:
    """Return parameters: the first and then one in `each` as they are, the others marked with the tier `later`.

    With `gate`, only one in so many runs in the gate, and the others are left to the nightly tier.
    """
    import pytest

    found = []
    for at, case in enumerate(cases):
        tier = later if at % gate == 0 else "nightly"
        found.append(_marked(case, getattr(pytest.mark, tier)) if at % each else case)
    return found


def _marked(case: Any, mark: Any) -> Any:
    import pytest

    if isinstance(case, type(pytest.param())):
        return pytest.param(*case.values, marks=[*case.marks, mark], id=case.id)
    return pytest.param(*case if isinstance(case, tuple) else (case,), marks=mark)
