"""Every covered database is an engine, and processes run there step by step."""

import pytest
from django.db import connections

from jobexec import clock
from jobexec.testing import ManualExecutor


@pytest.fixture(autouse=True)
def engines(settings):
    settings.JOBEXEC = {"ENGINES": {name: {} for name in connections}}
    yield
    clock.forget()


@pytest.fixture
def run_jobs(alias):
    """Run everything that is due; returns the results."""
    executor = ManualExecutor(alias, reraise=False)
    return executor.run_until_empty
