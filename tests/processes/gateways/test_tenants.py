"""Clients that may see one tenant, some or all: the jobs of BPMN files, over each of the gateways."""

import json

import grpc
import pytest

from jobexec.models import ExternalWorkerJob
from jobexec.processes.models import ProcessInstance
from jobexec.processes.operations.deploy import deploy
from jobexec.processes.operations.start import start
from tests.gateways.engine_rest import EngineRest
from tests.gateways.grpc.test_access import as_client
from tests.gateways.v2 import V2
from tests.support.factories import fetch

from .models import PAY, run, xml

pytestmark = [pytest.mark.transactional, pytest.mark.databases("sqlite")]

ORDER = xml(
    f'<startEvent id="s"/>{PAY}<endEvent id="paid"/><endEvent id="refused"/>'
    '<boundaryEvent id="no" attachedToRef="pay"><errorEventDefinition errorRef="e"/></boundaryEvent>'
    '<sequenceFlow id="f1" sourceRef="s" targetRef="pay"/><sequenceFlow id="f2" sourceRef="pay" targetRef="paid"/>'
    '<sequenceFlow id="f3" sourceRef="no" targetRef="refused"/>',
    before='<error id="e" errorCode="REFUSED"/>',
)
TENANTS = ("", "north", "south")


class Camunda8:
    """Jobs are named by their keys. What ends a job returns whether that succeeded; only NOT_FOUND is a refusal."""

    def __init__(self, request, authorization):
        self.client = V2(authorization)

    def fetch(self, *tenants):
        found = self.client.activate("payment", **({"tenantIds": list(tenants)} if tenants else {}))
        return None if self.client.status == 403 else {int(job["jobKey"]) for job in found}

    def complete(self, job):
        return self._end(job, "completion", variables={"amount": 1})

    def fail(self, job):
        return self._end(job, "failure", retries=2)

    def throw(self, job):
        return self._end(job, "error", errorCode="REFUSED")

    def _end(self, job, how, **given):
        self.client.post(f"/jobs/{job}/{how}", given)
        if self.client.status // 100 != 2:
            self.client.refused(404, "NOT_FOUND")
        return self.client.status != 404


class Camunda7:
    def __init__(self, request, authorization):
        self.client = EngineRest("/engine-rest", authorization=authorization)

    def fetch(self, *tenants):
        found = self.client.fetch("payment", **({"tenantIdIn": list(tenants)} if tenants else {}))
        return {int(task["id"]) for task in found}

    def complete(self, job):
        return self._end(job, "complete", variables={"amount": {"value": 1}})

    def fail(self, job):
        return self._end(job, "failure", retries=2)

    def throw(self, job):
        return self._end(job, "bpmnError", errorCode="REFUSED")

    def _end(self, job, how, **given):
        status, _ = self.client.post(f"/external-task/{job}/{how}", workerId="w", **given)
        assert status in (204, 404)
        return status == 204


class Zeebe:
    def __init__(self, request, authorization):
        self.client = as_client(request.getfixturevalue("gateway"), authorization)

    def fetch(self, *tenants):
        try:
            return {job.key for job in self.client.activate("payment", most=10, tenantIds=tenants)}
        except grpc.RpcError as error:
            assert error.code() is grpc.StatusCode.PERMISSION_DENIED
            return None

    def complete(self, job):
        return self._end("CompleteJob", job, variables=json.dumps({"amount": 1}))

    def fail(self, job):
        return self._end("FailJob", job, retries=2)

    def throw(self, job):
        return self._end("ThrowError", job, errorCode="REFUSED")

    def _end(self, call, job, **given):
        try:
            getattr(self.client, call)(jobKey=job, **given)
        except grpc.RpcError as error:
            assert error.code() is grpc.StatusCode.NOT_FOUND
            return False
        return True


@pytest.fixture
def keys():
    return {"GATEWAY_AUTH": "required"}


DOORS = [Camunda8, Camunda7, pytest.param(Zeebe, marks=pytest.mark.gate)]


@pytest.fixture(params=DOORS, ids=lambda door: door.__name__)
def door(request, served, bearer):
    """Returns a client by its tenants; without any, it may see all."""
    return lambda *tenants: request.param(request, bearer(tenants=tenants))


@pytest.fixture
def started(served):
    """Starts instances of each tenant; returns the keys of their jobs by tenant, in the order of the instances."""
    for tenant in TENANTS:
        deploy(("order.bpmn", ORDER), tenant_id=tenant, using=served)

    def start_some(count):
        for tenant in TENANTS:
            for number in range(count):
                start("order", business_key=str(number), tenant_id=tenant, using=served)
        rows = ExternalWorkerJob.objects.using(served).order_by("pk")
        return {tenant: list(rows.filter(tenant_id=tenant).values_list("job_key", flat=True)) for tenant in TENANTS}

    return start_some


CLIENTS = pytest.mark.parametrize(
    "tenants", [("north",), ("north", "south"), ("",), ()], ids=["one", "several", "without", "all"]
)


@CLIENTS
def test_a_client_gets_the_jobs_of_its_tenants(door, started, tenants):
    """Also if it asks for those of one tenant, which it may or may not see."""
    jobs, client, theirs = started(1), door(*tenants), set(tenants or TENANTS)
    named = theirs & {"south"}
    assert (client.fetch("south") or set()) == {jobs[tenant][0] for tenant in named}
    assert client.fetch() == {jobs[tenant][0] for tenant in theirs - named}


@pytest.mark.gate
@CLIENTS
def test_a_client_ends_the_jobs_of_its_tenants(served, door, started, tenants):
    """Those of others are not there, also if it knows their keys and the name of the worker that has them."""
    jobs, client, theirs = started(3), door(*tenants), set(tenants or TENANTS)
    fetch(served, "payment", worker="w")
    for tenant in TENANTS:
        done = [verb(job) for verb, job in zip((client.complete, client.throw, client.fail), jobs[tenant], strict=True)]
        assert done == [tenant in theirs] * 3, tenant
    run(served)
    rows = ProcessInstance.objects.using(served).order_by("tenant_id", "business_key")
    ends = {tenant: list(rows.filter(tenant_id=tenant).values_list("end_element", flat=True)) for tenant in TENANTS}
    assert ends == {tenant: ["paid", "refused", ""] if tenant in theirs else [""] * 3 for tenant in TENANTS}
    held = ExternalWorkerJob.objects.using(served).filter(lock_owner="w", retries=3).values_list("job_key", flat=True)
    assert set(held) == {job for tenant in TENANTS for job in jobs[tenant] if tenant not in theirs}
