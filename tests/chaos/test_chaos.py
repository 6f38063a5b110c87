"""A short run of everything, which finds nothing; and one for each guard that is taken away, which must: each night."""

import os
import subprocess
import sys
from urllib.parse import quote

import pytest

from tests.support.suite import databases

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

#: What the judge says when a guard is gone.
FOUND = {
    "fencing": {"fencing"},
    "atomic-fence": {"effects exactly once"},
    "lock-row": {"exclusive"},
    "lease": {"lease"},
    "turn": {"turn"},
    "judging": {"judge"},
    "recover-living": {"one run at a time", "unexplained repeat", "lease"},
    "sibling-commit": {"siblings"},
    "lost-run-charge": {"charges"},
    "schedule-row": {"schedules"},
    "unique-key": {"unique keys"},
    "task-fence": {"results", "attempts"},
    "resource-row": {"resources", "rates"},
    "rate": {"rates"},
    "root-lock": {"rows of processes", "ends", "effects of steps"},
    "token-check": {"ends"},
    "job-check": {"steps outside"},
    "shared-lock": {"rows of processes", "ends", "steps outside"},
    "shared-busy": {"rows of processes"},
    "shared-job": {"steps outside"},
    "message-look": {"messages"},
    "message-id": {"message ids"},
    "tally": {"children"},
    "tally-fence": {"children"},
    "permit-count": {"resources"},
    "cut-off": {"breakers"},
    "trial": {"breakers"},
    "follow-up": {"exclusive"},
}
#: Seconds in which it shows, where that are not five.
SECONDS = {
    "job-check": 12,
    "turn": 10,
    "judging": 9,
    "schedule-row": 3,
    "unique-key": 4,
    "task-fence": 7,
    "tally-fence": 7,
    "shared-lock": 8,
    "shared-busy": 8,
    "shared-job": 10,
    "resource-row": 3,
    "rate": 3,
    "cut-off": 10,
    "trial": 10,
}


def play(*arguments, module="tests.chaos", timeout=300, **more):
    """Run the driver as a process of its own; it judges, and ends with 1 if it found something."""
    ours = ("JOBEXEC_", "DJANGO_")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(ours)} | more
    command = [sys.executable, "-m", module, *map(str, arguments)]
    return subprocess.run(command, cwd=databases.ROOT, env=environment, capture_output=True, text=True, timeout=timeout)


@pytest.mark.skipif(sys.platform != "linux", reason="needs a clock that all processes share")
def test_nothing_is_lost_doubled_or_charged_to_the_innocent():
    run = play("--nodes", 3, "--seconds", 5, "--seed", 5, "--lease", 1.2)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "Nothing is wrong." in run.stdout


@pytest.fixture(scope="module")
def server():
    """The address of the PostgreSQL server of the other tests; each run makes a database of its own there."""
    if "postgresql" not in databases.covered:
        pytest.skip(databases.missing["postgresql"])
    found = databases.covered["postgresql"].settings
    user, password, host = (quote(str(found[key]), safe="") for key in ("USER", "PASSWORD", "HOST"))
    return f"postgresql://{user}:{password}@{host}:{found['PORT']}/postgres".replace(":@", "@").replace(":/p", "/p")


@pytest.mark.nightly  # whether a fault hits the gap is chance, which has no place in the gate
@pytest.mark.parametrize("guard", FOUND)
def test_a_guard_that_is_gone_is_missed(guard, server, tmp_path):
    said = ""
    for seed in range(1, 11):  # a pause may hit a node that has nothing in hand
        arguments = ["--nodes", 2, "--seconds", SECONDS.get(guard, 5), "--seed", seed, "--break", guard]
        ours = [] if guard == "judging" else ["--server", server]  # which needs a server that can be away
        run = play(*arguments, *ours, TMPDIR=str(tmp_path))
        said = run.stdout + run.stderr
        if run.returncode and any(f"{rule}:" in said for rule in FOUND[guard]):
            return
    raise AssertionError(said)
