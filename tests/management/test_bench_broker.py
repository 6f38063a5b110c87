"""`manage.py jobbench broker`: it measures both ways of telling, and leaves no job and no queue behind."""

import json
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import connections

from jobexec.models import JOB_TABLES
from tests.support.machines import brokers

pytestmark = [pytest.mark.transactional, pytest.mark.databases("postgresql")]


@pytest.fixture(autouse=True)
def engines(settings):
    settings.JOBEXEC = {"ENGINES": {alias: {} for alias in connections}, "THREADS": 2, "WAIT_TIME": 0.01}


@pytest.fixture(params=brokers.parameters())
def url(request, monkeypatch):
    if request.param == "redis":
        monkeypatch.setattr("kombu.transport.redis.Transport.brpop_timeout", 0.1)
    return brokers.URLS[request.param]


def bench(alias, **options):
    out = StringIO()
    call_command("jobbench", "broker", engine=alias, jobs=20, repeat=1, json=True, stdout=out, **options)
    return json.loads(out.getvalue())


@pytest.mark.nightly
@pytest.mark.slow
def test_it_measures_both(alias, url, monkeypatch):
    monkeypatch.setattr("demo_project.benchmarks.cases.broker._SINGLE", 3)
    report = bench(alias, broker_url=url)
    assert set(report["details"]["runs"]) == {"ours", "raw", "ours, many", "raw, many"}
    assert all(run["single_p50"]["median"] > 0 for run in report["details"]["runs"].values())
    assert "guest:guest" not in json.dumps(report)
    assert not any(table._base_manager.using(alias).exists() for table in JOB_TABLES)


@pytest.mark.gate
def test_it_needs_a_broker(alias):
    with pytest.raises(CommandError, match="--broker-url"):
        bench(alias)
    with pytest.raises(CommandError, match="does not answer"):
        bench(alias, broker_url="redis://127.0.0.1:1/0")
