"""A short run with workers outside, which finds nothing; and, each night, one for each guard that is taken away."""

import sys

import pytest

from tests.chaos.test_chaos import play, server

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(sys.platform != "linux", reason="needs a clock that all processes share"),
]
__all__ = ["server"]

#: What the judge says when a guard is gone; the others are for longer runs by hand.
FOUND = {"lease": "stale lease", "removal": "nothing follows the end"}


def play_outside(*arguments, timeout=150, **more):
    pytest.importorskip("grpc")
    pytest.importorskip("uvicorn")
    return play(*arguments, module="tests.chaos.outside", timeout=timeout, **more)


def test_no_job_of_a_worker_outside_is_lost_doubled_or_stuck():
    run = play_outside("--small", "--seconds", 3.5, "--seed", 3)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "Nothing is wrong." in run.stdout


@pytest.mark.nightly
@pytest.mark.parametrize("guard", FOUND)
def test_a_guard_that_is_gone_is_missed(guard, server, tmp_path):
    said = ""
    for seed in range(1, 11):  # a worker may be late when nobody else comes
        run = play_outside("--seconds", 5, "--seed", seed, "--break", guard, "--server", server, TMPDIR=str(tmp_path))
        said = run.stdout + run.stderr
        if run.returncode and f"{FOUND[guard]}: job" in said:
            return
    raise AssertionError(said)
