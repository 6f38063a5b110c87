"""Real clients with OAuth 2: they get a token from the endpoint, and work with it."""

import pytest

from jobexec import external_job
from jobexec.gateways.grpc.gateway import GrpcGateway
from jobexec.gateways.grpc.options import Options
from jobexec.models import ExternalWorkerJob, GatewayClient
from jobexec.operations.manage.gateway_clients import create_client
from tests.gateways import clients, servers

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.transactional,
    pytest.mark.databases("postgresql"),
    pytest.mark.timeout(240),
]

PYZEEBE = """
import asyncio, os, grpc
from pyzeebe import ZeebeWorker, create_oauth2_client_credentials_channel

async def main():
    local = grpc.local_channel_credentials()  # the gateway is on this machine: a token passes without TLS
    channel = create_oauth2_client_credentials_channel(channel_credentials=local, scope="jobs")
    worker, done = ZeebeWorker(channel), asyncio.Event()

    @worker.task(task_type="payment")
    async def pay(amount: int) -> dict:
        done.set()
        return {"paid": amount}

    work = asyncio.create_task(worker.work())
    await done.wait()
    await asyncio.sleep(1)
    await worker.stop()
    print("paid")

asyncio.run(main())
"""

ORCHESTRATION = """
from camunda_orchestration_sdk import CamundaClient
from camunda_orchestration_sdk.models import JobActivationRequest, JobCompletionRequest

with CamundaClient() as client:
    asked = JobActivationRequest(type_="payment", timeout=60_000, max_jobs_to_activate=1)
    (job,) = client.activate_jobs(data=asked).jobs
    client.complete_job(job.job_key, data=JobCompletionRequest())
    print("paid")
"""

NODE = """
const { Camunda8 } = require('@camunda8/sdk')
const client = new Camunda8().getZeebeGrpcApiClient()
client.createWorker({
  taskType: 'payment',
  taskHandler: async job => {
    const answer = await job.complete({ paid: job.variables.amount })
    console.log('paid')
    setTimeout(() => process.exit(0), 500)
    return answer
  },
})
"""


@pytest.fixture
def server(alias, settings):
    """The token endpoint in a process, and the gateway over gRPC in this one."""
    keys = {"GATEWAY_AUTH": "required", "CATEGORIES": ["default"]}
    with servers.asgi(alias, jobexec=keys) as server:
        settings.JOBEXEC = {"ENGINES": {alias: {}}, "GATEWAY_DATABASE": alias, **keys}
        gateway = GrpcGateway(Options(using=alias, port=0))
        gateway.start()
        server.grpc = gateway.port
        yield server
        gateway.stop()


def variables(server, secret):
    return {
        "CAMUNDA_OAUTH_URL": f"{server.url}/oauth/token",
        "CAMUNDA_CLIENT_ID": "shop",
        "CAMUNDA_CLIENT_SECRET": secret,
        "CAMUNDA_TOKEN_AUDIENCE": "jobexec",
        "ZEEBE_ADDRESS": f"127.0.0.1:{server.grpc}",
        "OAUTHLIB_INSECURE_TRANSPORT": "1",
        "CAMUNDA_REST_ADDRESS": server.url,
        "CAMUNDA_BASIC_AUTH_USERNAME": "shop",
        "CAMUNDA_BASIC_AUTH_PASSWORD": secret,
        # The SDK of Node.
        "ZEEBE_GRPC_ADDRESS": f"grpc://127.0.0.1:{server.grpc}",
        "ZEEBE_REST_ADDRESS": server.url,
        "ZEEBE_CLIENT_ID": "shop",
        "ZEEBE_CLIENT_SECRET": secret,
        "CAMUNDA_TOKEN_DISK_CACHE_DISABLE": "true",
    }


@pytest.mark.parametrize(
    ("script", "install", "strategy"),
    [
        pytest.param(PYZEEBE, lambda: clients.python("pyzeebe"), "OAUTH", id="pyzeebe"),
        pytest.param(NODE, lambda: clients.node("@camunda8/sdk"), "OAUTH", id="node"),
        pytest.param(ORCHESTRATION, lambda: clients.python("camunda-orchestration-sdk"), "OAUTH", id="rest-oauth"),
        pytest.param(ORCHESTRATION, lambda: clients.python("camunda-orchestration-sdk"), "BASIC", id="rest-basic"),
    ],
)
def test_a_worker_with_a_token_completes_a_job(server, alias, tmp_path, script, install, strategy):
    program = install()
    _row, secret = create_client(alias, name="shop", types=["payment"])
    job = external_job("payment", variables={"amount": 5}, database=alias)
    path = tmp_path / "worker.txt"
    path.write_text(script)
    done = clients.run(program, path, timeout=90, CAMUNDA_AUTH_STRATEGY=strategy, **variables(server, secret))
    assert "paid" in done.stdout
    assert not ExternalWorkerJob.objects.using(alias).filter(pk=job.pk).exists()
    assert GatewayClient.objects.using(alias).get().last_use is not None
