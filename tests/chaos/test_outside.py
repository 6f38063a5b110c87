"""A short run with workers outside, which finds nothing; and one for each of two guards that are taken away."""

import os
import subprocess
import sys

import pytest

from tests.chaos.test_chaos import server
from tests.support import databases

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(200),
    pytest.mark.skipif(sys.platform != "linux", reason="needs a clock that all processes share"),
]
__all__ = ["server"]

#: What the judge says when a guard is gone; the others are for longer runs by hand.
FOUND = {"lease": "stale lease", "removal": "nothing follows the end"}


def play(*arguments, **more):
    pytest.importorskip("grpc")
    pytest.importorskip("uvicorn")
    ours = ("JOBEXEC_", "DJANGO_")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(ours)} | more
    command = [sys.executable, "-m", "tests.chaos.outside", *map(str, arguments)]
    return subprocess.run(command, cwd=databases.ROOT, env=environment, capture_output=True, text=True, timeout=150)


def test_no_job_of_a_worker_outside_is_lost_doubled_or_stuck():
    run = play("--small", "--seconds", 3.5, "--seed", 3)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "Nothing is wrong." in run.stdout


@pytest.mark.parametrize("guard", FOUND)
def test_a_guard_that_is_gone_is_missed(guard, server, tmp_path):
    said = ""
    for seed in (1, 2, 3, 4):  # a worker may be late when nobody else comes
        run = play("--seconds", 2.5, "--seed", seed, "--break", guard, "--server", server, TMPDIR=str(tmp_path))
        said = run.stdout + run.stderr
        if run.returncode and f"{FOUND[guard]}: job" in said:
            return
    raise AssertionError(said)
