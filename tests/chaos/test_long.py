"""Long runs, which find nothing."""

import sys

import pytest

from .outside.test_chaos import play_outside
from .test_chaos import play

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.timeout(900),
    pytest.mark.skipif(sys.platform != "linux", reason="needs a clock that all processes share"),
]


def assert_nothing_is_wrong(run):
    assert run.returncode == 0, run.stdout + run.stderr
    assert "Nothing is wrong." in run.stdout


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_two_minutes_on_postgresql(seed):
    assert_nothing_is_wrong(play("--nodes", 4, "--seconds", 120, "--seed", seed, timeout=800))


@pytest.mark.parametrize("database", ["mariadb", "sqlite"])
def test_a_minute_on_the_others(database):
    assert_nothing_is_wrong(play("--seconds", 60, "--seed", 4, "--database", database, timeout=800))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_minute_with_workers_outside(seed):
    assert_nothing_is_wrong(play_outside("--seconds", 60, "--seed", seed, timeout=800))
