"""The doors on the database of the test."""

import pytest
from django.db import connections

from jobexec.gateways import auth, long_polling
from jobexec.operations.manage.gateway_clients import create_client
from jobexec.runtime import database_threads
from tests.gateways.engine_rest import EngineRest
from tests.gateways.grpc.bed import Bed
from tests.gateways.v2 import V2

pytest.importorskip("lxml")

ALL = ("work", "search", "update", "resolve", "publish", "deploy", "start", "tasks")


@pytest.fixture(autouse=True)
def no_hub_is_left():
    auth.forget()
    yield
    long_polling.close_all()


@pytest.fixture
def keys():
    """What the test's JOBEXEC says besides; a test module may have its own."""
    return {}


@pytest.fixture
def served(alias, settings, keys):
    """The gateways serve the database of the test."""
    engines = {name: {} for name in connections}
    settings.JOBEXEC = {"ENGINES": engines, "GATEWAY_AUTH": "none", "GATEWAY_DATABASE": alias, **keys}
    settings.ROOT_URLCONF = "jobexec.gateways.rest.urls"
    auth.forget()
    return alias


@pytest.fixture
def gateway(served, monkeypatch):
    """A gateway over gRPC."""
    monkeypatch.setattr(database_threads, "_IDLE", 0.1)
    bed = Bed(served, {"port": 0})
    yield bed
    bed.close()


@pytest.fixture
def v2(served):
    return V2()


@pytest.fixture
def rest(served):
    return EngineRest("/engine-rest")


@pytest.fixture
def bearer(alias):
    """Creates a client; returns its header."""

    def made(name="java", permissions=ALL, **given):
        return f"Bearer {create_client(alias, name=name, permissions=permissions, **given)[1]}"

    return made
