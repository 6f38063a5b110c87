"""A gateway as a process: whom it has seen stands in the table, and on its port."""

import json
import sys
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from jobexec.models import ExternalWorker
from tests.support.machines.processes import Process
from tests.support.suite import databases
from tests.support.waiting import TIMEOUT, until

grpc = pytest.importorskip("grpc")
pytestmark = [pytest.mark.transactional, pytest.mark.slow]


@pytest.fixture
def gateway(alias):
    environment = databases.environment(alias, JOBEXEC={"GATEWAY_AUTH": "none", "GATEWAY_SEEN_INTERVAL": 0.2})
    command = [sys.executable, "-m", "django", "rungrpcgateway", "--port", "0", "--metrics-port", "0"]
    process = Process(command, environment | {"PYTHONUNBUFFERED": "1"})
    yield process.started()
    process.close()


def said(process, begins):
    (line,) = [line for line in process.out if begins in line]
    return line


def ask(url):
    with urlopen(url, timeout=TIMEOUT) as response:
        return response.read().decode()


@pytest.mark.databases("postgresql")
def test_a_stream_is_seen(alias, gateway):
    from tests.gateways.grpc.bed import Client, Streamed

    gateway.said("Metrics: ")
    base = said(gateway, "Metrics: ").removeprefix("Metrics: ").removesuffix("/metrics")
    client = Client(int(said(gateway, "address:").split(",")[0].rpartition(":")[2]))
    stream = Streamed(client.stream("payment"))
    rows = ExternalWorker.objects.using(alias)
    until(lambda: rows.filter(type="payment", protocol="grpc", streams=1).exists())
    families = {each.name: each for each in text_string_to_metric_families(ask(f"{base}/metrics"))}
    assert families["zeebe_gateway_job_stream_clients"].samples[0].value == 1
    (told,) = json.loads(ask(f"{base}/actuator/jobstreams/client"))
    assert told["jobType"] == "payment"
    assert rows.get().open_streams[0]["id"] == told["id"]
    gateway.popen.terminate()
    assert gateway.ended() == 0, gateway.text
    assert (rows.get().streams, rows.get().open_streams) == (0, [])
    stream.ended()
    client.close()
