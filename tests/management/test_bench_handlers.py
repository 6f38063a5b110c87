"""`manage.py jobbench handlers --processes`: that several processes do each job once. No figure is judged here."""

import json
import sys

import pytest

from demo_project.bookings.models import Booking
from jobexec.models import Job
from tests.support.machines.processes import Process
from tests.support.suite import databases
from tests.support.suite.tiers import some

KINDS = ["orm", "async-orm", "http", "cpu-1ms"]


@pytest.mark.slow
@pytest.mark.transactional
@pytest.mark.databases("postgresql", "mariadb")
@pytest.mark.parametrize("kind", some(KINDS, 2, later="nightly"))
def test_two_executors_and_two_raw_loops_do_each_job_once(alias, kind):
    arguments = ["--handler", kind, "--processes", "2", "--threads", "2", "--jobs", "60", "--repeat", "1", "--json"]
    environment = databases.environment(alias, JOBEXEC={"THREADS": 4}) | {"PYTHONUNBUFFERED": "1"}
    command = [sys.executable, str(databases.ROOT / "manage.py"), "jobbench", "handlers", *arguments]
    process = Process(command, environment)
    try:
        assert process.ended() == 0, process.text
        details = json.loads("\n".join(process.out))["details"]
    finally:
        process.close()
    assert (details["handler"], details["processes"], details["jobs"]) == (kind, 2, 60)
    assert list(details["runs"]) == ["ours", "raw"]
    assert all(run["median"] > 0 for run in details["runs"].values())
    assert not Job.objects.using(alias).exists()
    assert not Booking.objects.using(alias).exists()
