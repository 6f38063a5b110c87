"""`manage.py jobbench external`: that each way of working on jobs does each once. No figure is judged here."""

import json
import sys
from datetime import timedelta
from importlib.util import find_spec
from types import SimpleNamespace

import pytest
from django.core.management import CommandError, call_command
from django.db import connections

from demo_project.benchmarks.cases import external
from demo_project.benchmarks.noop import CATEGORY, HANDLER
from demo_project.benchmarks.raw.external import RawWorker
from jobexec.models import ExternalWorkerJob, Job
from jobexec.operations.external import fetch
from jobexec.operations.external.create import create_external_jobs
from jobexec.operations.external.types import Fetch
from tests.support.machines.processes import Process
from tests.support.suite import databases

pytestmark = pytest.mark.slow

TYPE = "jobexec.bench.external"


@pytest.fixture(autouse=True)
def engines(settings):
    settings.JOBEXEC = {"ENGINES": {alias: {} for alias in connections}}


@pytest.fixture
def bench(alias):
    """A function that runs the case in a process of its own and returns what it said."""

    def run(*arguments):
        environment = databases.environment(alias) | {"PYTHONUNBUFFERED": "1"}
        command = [sys.executable, str(databases.ROOT / "manage.py"), "jobbench", "external", "--repeat", "1"]
        process = Process([*command, *arguments], environment)
        try:
            assert process.ended() == 0, process.text
            return process.out
        finally:
            process.close()

    return run


@pytest.mark.nightly
@pytest.mark.transactional
def test_operations_and_raw_sql_do_each_job_once(alias, bench):
    found = json.loads("\n".join(bench("--jobs", "40", "--gateways", "none", "--worker-threads", "2", "--json")))
    details = found["details"]
    assert list(details["runs"]) == ["ours", "raw", "ours, on_complete", "raw, on_complete"]
    assert (details["jobs"], details["exactly_once"], details["batch"]) == (40, True, 32)
    assert all(run["median"] > 0 for run in details["runs"].values())
    assert not ExternalWorkerJob.objects.using(alias).exists()
    assert not Job.objects.using(alias).exists()


@pytest.mark.transactional
@pytest.mark.nightly
@pytest.mark.parametrize("door", ["rest", "grpc"])
def test_through_a_gateway(alias, bench, door):
    reason = external._missing(door)
    if reason:
        pytest.skip(reason)
    text = "\n".join(bench("--jobs", "40", "--gateways", door, "--processes", "1", "--worker-threads", "2"))
    assert f"\n{door}, on_complete " in text
    assert f"{door}: workers cpu" in text and "wake p50" in text
    assert "Each job was done exactly once." in text
    assert not ExternalWorkerJob.objects.using(alias).exists()


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("door", "lacks", "says"), [("rest", "uvicorn", "uvicorn is missing"), ("grpc", "grpc", "grpc")]
)
@pytest.mark.nightly
def test_it_says_what_is_missing(monkeypatch, door, lacks, says):
    monkeypatch.setattr(external, "find_spec", lambda name: None if name == lacks else find_spec(name))
    with pytest.raises(CommandError, match=f"--gateways {door}: .*{says}.* pip install"):
        call_command("jobbench", "external", engine="default", gateways=door, jobs=1, force=True)


@pytest.mark.transactional
@pytest.mark.databases("postgresql", "sqlite")
def test_its_jobs_are_fetched_in_the_fast_form(alias, monkeypatch):
    """Like those that a project creates: they have no local variables, not even an empty object of them."""
    monkeypatch.setattr(fetch, "_lock", lambda *arguments: pytest.fail("the portable form was asked"))
    case = SimpleNamespace(plan=SimpleNamespace(alias=alias, jobs=3))
    external.External._fill(case, False)
    asked = Fetch(type=TYPE, worker="w", timeout=timedelta(minutes=1), max_jobs=5)
    assert len(fetch.activate_jobs(alias, asked)) == 3


@pytest.mark.transactional
@pytest.mark.parametrize("on_complete", [False, True])
def test_the_raw_sql_does_the_same_work(alias, on_complete):
    columns = {"handler_type": TYPE, "category": CATEGORY}
    rows = create_external_jobs(alias, columns, [{"variables": {}}] * 3)
    worker = RawWorker(alias, TYPE, "raw", on_complete, {"paid": True})
    try:
        assert sorted(worker.activate(2) + worker.activate(2)) == sorted(row.job_key for row in rows)
        assert worker.activate(2) == []
        held = ExternalWorkerJob.objects.using(alias).first()
        assert (held.lock_owner, held.attempts, held.available_at) == ("raw", 1, held.lock_expiration_time)
        for row in rows:
            worker.complete(row.job_key)
    finally:
        worker.close()
    assert not ExternalWorkerJob.objects.using(alias).exists()
    made = list(Job.objects.using(alias))
    assert len(made) == (3 if on_complete else 0)
    for row in made:
        assert (row.type, row.job_key, row.handler_type, row.lock_owner) == ("message", None, HANDLER, None)
        assert row.handler_configuration == {"args": [], "kwargs": {"variables": {"paid": True}}}
