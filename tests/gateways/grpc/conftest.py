"""A gateway in this process for each test."""

import pytest
from django.db import connections

from jobexec.gateways import auth
from jobexec.runtime import database_threads
from tests.support.machines.certificates import Authority

from .bed import Bed


@pytest.fixture(scope="session")
def authority(tmp_path_factory):
    """Signs certificates."""
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def options():
    """Of the gateway; a test module may have its own fixture of this name."""
    return {}


@pytest.fixture
def keys():
    """What the test's JOBEXEC says besides; a test module may have its own."""
    return {}


@pytest.fixture
def gateway(alias, settings, options, keys, monkeypatch):
    monkeypatch.setattr(database_threads, "_IDLE", 0.1)
    settings.JOBEXEC = {"ENGINES": {name: {} for name in connections}, "GATEWAY_AUTH": "none", **keys}
    auth.forget()
    bed = Bed(alias, {"port": 0, **options})
    yield bed
    bed.close()
