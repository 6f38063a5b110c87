"""Every covered database is an engine, and processes run there step by step."""

import pytest
from django.db import connections

from jobexec import clock
from jobexec.processes.operations.check import check
from jobexec.testing import ManualExecutor


@pytest.fixture(autouse=True)
def engines(settings):
    settings.JOBEXEC = {"ENGINES": {name: {} for name in connections}}
    yield
    clock.forget()


@pytest.fixture(autouse=True)
def nothing_is_wrong(request):
    """After each test, the rows of all processes fit together."""
    alias = request.getfixturevalue("alias") if "alias" in request.fixturenames else None
    yield
    if alias is not None:
        assert check(using=alias) == []


@pytest.fixture
def run_jobs(alias):
    """Run everything that is due; returns the results."""
    executor = ManualExecutor(alias, reraise=False)
    return executor.run_until_empty
