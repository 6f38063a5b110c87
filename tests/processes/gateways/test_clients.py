"""Real, unmodified clients deploy a process, start it, work for it and get its result."""

import json
import subprocess
import threading
from pathlib import Path

import pytest

from jobexec.processes.models import ProcessInstance
from tests.gateways import clients, servers
from tests.gateways.grpc.real import workers

from .models import APPROVE, PAY, chain, run

pytestmark = [pytest.mark.transactional, pytest.mark.nightly, pytest.mark.databases("sqlite", "postgresql")]

PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "order.bpmn"
    path.write_bytes(chain(PAY))
    return path


@pytest.fixture
def executor(alias):
    """Runs what is due, in a thread, until the end of the test."""
    over = threading.Event()

    def work():
        from django.db import connections

        while not over.wait(0.1):
            run(alias)
        connections.close_all()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    yield
    over.set()
    thread.join(30)


def states(alias):
    return sorted(ProcessInstance.objects.using(alias).values_list("state", flat=True))


def test_pyzeebe(alias, gateway, executor, file):
    said = clients.run(clients.python("pyzeebe"), PROGRAMS / "zeebe.py", f"127.0.0.1:{gateway.port}", str(file))
    assert said.stdout.split("\n")[:2] == ['{"paid": 10}', "ProcessDefinitionNotFoundError"]
    assert states(alias) == ["cancelled", "completed"]


@pytest.mark.parametrize("package", ["@camunda8/sdk", "zeebe-node"])
def test_node(alias, gateway, executor, file, package):
    given = [package, f"127.0.0.1:{gateway.port}", str(file)]
    said = clients.run(clients.node(package), PROGRAMS / "sdk.cjs", *given)
    assert said.stdout.split("\n")[-3:-1] == ['{"paid":10}', "5"], said.stdout
    assert states(alias) == ["cancelled", "completed"]


def test_zbctl(alias, gateway, executor, file):
    with workers(gateway.port) as team:

        def zbctl(*arguments):
            ended = subprocess.run([*team.zbctl(), *arguments], capture_output=True, text=True, timeout=180)
            assert ended.returncode == 0, ended.stderr
            return json.loads(ended.stdout) if ended.stdout.startswith("{") else ended.stdout

        deployed = zbctl("deploy", "resource", str(file))
        assert deployed["deployments"][0]["process"]["bpmnProcessId"] == "order"
        team.start("go")
        other = zbctl("create", "instance", "order")["processInstanceKey"]
        zbctl("set", "variables", other, "--variables", '{"a": 1}')
        result = zbctl("create", "instance", "order", "--withResult", "--variables", '{"amount": 5}')
        assert json.loads(result["variables"])["amount"] == 5
        zbctl("broadcast", "signal", "nobody")
        key = deployed["deployments"][0]["process"]["processDefinitionKey"]
        waiting = zbctl("create", "instance", key)["processInstanceKey"]
        row = ProcessInstance.objects.using(alias).get(key=int(waiting))
        if row.state == "active":  # its worker is fast
            subprocess.run([*team.zbctl(), "cancel", "instance", waiting], timeout=180, check=False)
    assert "completed" in states(alias)


def test_rest_in_python(alias, served, executor, file, tmp_path):
    approval = tmp_path / "approval.bpmn"
    approval.write_bytes(chain(APPROVE, key="approval"))
    client = clients.python("camunda-orchestration-sdk")
    with servers.asgi(alias) as server:
        said = clients.run(client, PROGRAMS / "rest.py", str(file), str(approval), CAMUNDA_REST_ADDRESS=server.url)
    assert said.stdout.split("\n")[:3] == ["COMPLETED", "TERMINATED", '{"paid": 10}']


def test_rest_in_node(alias, served, executor, file):
    folder = clients.node("@camunda8/orchestration-cluster-api")
    with servers.asgi(alias) as server:
        said = clients.run(folder, PROGRAMS / "rest.cjs", str(file), CAMUNDA_REST_ADDRESS=server.url)
    assert said.stdout.split("\n")[-2] == '{"paid":10}', said.stdout
    assert states(alias) == ["cancelled", "completed"]
