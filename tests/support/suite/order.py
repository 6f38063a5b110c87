"""The tests that a run leaves out, those that come first, and the order in which the processes read them."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.suite import tiers

_TESTS = Path(__file__).resolve().parents[2]


def read_in_turn(config: pytest.Config) -> None:
    """Make the processes of pytest-xdist start reading the tests at different files.

    In a fresh checkout, pytest compiles each test file that it reads, which takes longer than everything else before
    the first test. This way each process compiles its part and finds the other parts compiled. Files without a test of
    the tier are not read.
    """
    sys.dont_write_bytecode = False
    if [Path(path).resolve() for path in config.args] == [_TESTS]:
        tier = tiers.current()
        files = sorted(str(path) for path in _TESTS.rglob("test_*.py") if tier.reads(path))
        number = int(config.workerinput["workerid"].removeprefix("gw"))  # type: ignore[attr-defined]
        start = number * len(files) // config.workerinput["workercount"]  # type: ignore[attr-defined]
        config.args = files[start:] + files[:start]


def leave(items: list[pytest.Item], runs: Callable[[pytest.Item], bool]) -> list[pytest.Item]:
    """Remove the tests that do not run from `items`, and return them."""
    left = [item for item in items if not runs(item)]
    if left:
        gone = set(left)
        items[:] = [item for item in items if item not in gone]
    return left


def slow_first(items: list[pytest.Item]) -> None:
    """Make each process of pytest-xdist start with its share of the slow tests, so that none is left for the end.

    With `--dist worksteal`, each process starts with an equal, contiguous part of the list.
    """
    slow, quick = [], []
    for item in items:
        (slow if item.get_closest_marker("slow") else quick).append(item)
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", 1))
    count = len(items)
    items.clear()
    for number in range(processes):
        mine = slow[number::processes]
        share = max(0, (number + 1) * count // processes - len(items) - len(mine))
        items += mine + quick[:share]
        del quick[:share]
    items += quick
