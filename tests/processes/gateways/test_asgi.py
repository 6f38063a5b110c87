"""A client that waits for the end of a process over REST, from a server of its own and in the thread of a request."""

import json
import threading
import urllib.error
import urllib.request
from datetime import timedelta

import pytest
from django.db import connections

from jobexec.gateways import auth, long_polling
from jobexec.operations.external import activate_jobs, complete_external_job
from jobexec.operations.external.types import Fetch
from jobexec.processes.models import ProcessInstance
from jobexec.processes.operations.deploy import deploy
from tests.gateways import servers
from tests.gateways.v2 import V2
from tests.support.waiting import until

from .models import PAY, chain, run

pytestmark = pytest.mark.transactional


def ask(url, **given):
    body = json.dumps({"processDefinitionId": "order", "awaitCompletion": True, **given}).encode()
    request = urllib.request.Request(f"{url}/v2/process-instances", body, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as response:  # our own server
            return response.status, json.loads(response.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def pay(alias):
    """Do the work of the only job, and all that follows."""
    jobs = []

    def found():
        jobs.extend(activate_jobs(alias, Fetch(type="payment", worker="w", timeout=timedelta(minutes=1))))
        return jobs

    until(found)
    complete_external_job(alias, jobs[0].key, {"paid": True})
    run(alias)


@pytest.mark.gate
@pytest.mark.databases("sqlite", "postgresql", "mariadb")
def test_its_result_when_it_ends_later(alias, served):
    deploy(("order.bpmn", chain(PAY)), using=alias)
    answers = []
    with servers.asgi(alias, probes=False) as server:  # it has to be told
        asking = threading.Thread(target=lambda: answers.append(ask(server.url, requestTimeout=50_000)), daemon=True)
        asking.start()
        pay(alias)
        asking.join(50)
        assert (answers[0][0], answers[0][1]["variables"]) == (200, {"paid": True})
        status, problem = ask(server.url, requestTimeout=1)
        assert (status, problem["title"]) == (504, "DEADLINE_EXCEEDED")
    assert sorted(ProcessInstance.objects.using(alias).values_list("state", flat=True)) == ["active", "completed"]


@pytest.mark.databases("postgresql")
@pytest.mark.parametrize("access", ["kept", "lost"])
def test_in_the_thread_of_a_request(alias, served, monkeypatch, access):
    deploy(("order.bpmn", chain(PAY)), using=alias)
    client = V2()
    if access == "lost":
        monkeypatch.setattr(auth, "is_still_let_in", lambda request: False)
    given = {"processDefinitionId": "order", "awaitCompletion": True, "requestTimeout": 50_000}

    def wait():
        client.post("/process-instances", given)
        connections.close_all()

    asking = threading.Thread(target=wait, daemon=True)
    asking.start()
    until(lambda: long_polling.of(alias).queue.count() == 1)
    pay(alias)
    asking.join(50)
    if access == "kept":
        assert (client.status, client.body["variables"]) == (200, {"paid": True})
    else:
        client.refused(403, "FORBIDDEN", "has lost its access")


class TestNoPlace:
    @pytest.fixture
    def keys(self):
        return {"GATEWAY_MAX_WAITERS_IN_THREADS": 0}

    @pytest.mark.databases("sqlite")
    def test_nothing_is_started(self, alias, served):
        deploy(("order.bpmn", chain(PAY)), using=alias)
        client = V2()
        client.post("/process-instances", {"processDefinitionId": "order", "awaitCompletion": True})
        client.refused(503, "RESOURCE_EXHAUSTED")
        assert not ProcessInstance.objects.using(alias).exists()
