"""More rows of the pictures: jobs for workers outside, those workers, and the clients of the gateways."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from jobexec import clock, external_job, external_jobs, job
from jobexec.models import ExternalWorker, ExternalWorkerJob, GatewayClient
from jobexec.operations.external import Fetch, activate_jobs, fail_external_job
from jobexec.operations.manage.gateway_clients import create_client

PAYMENT, LABEL = "payment", "print-label"


def fill() -> dict[str, Any]:
    """Insert them; the rows whose pages are shown, by name of their table."""

    @job(name="shop.jobs.paid")
    def paid(variables: dict[str, Any], order: int = 0) -> None:
        """Only for the pictures."""

    made = [
        external_job(
            PAYMENT,
            variables={"order": number, "amount": 4200 + number, "currency": "EUR"},
            headers={"region": "eu"},
            on_complete=(paid, {"order": number}),
            process_instance_id=f"order-{number}",
            tenant_id=("acme", "globex")[number % 2],
            priority=number % 3,
        )
        for number in range(48301, 48309)
    ]
    external_jobs(LABEL, [{"order": number, "pages": 2} for number in range(48290, 48296)])
    external_job("sign-contract", variables={"contract": "C-2231"}, tenant_id="acme")
    old = clock.now() - timedelta(minutes=12)
    ExternalWorkerJob.objects.filter(handler_type="sign-contract").update(create_time=old)
    fetched = activate_jobs("default", Fetch(type=PAYMENT, worker="pay-1", timeout=timedelta(minutes=5), max_jobs=4))
    fail_external_job(
        "default",
        fetched[-1].key,
        retries=2,
        message="502 Bad Gateway from the bank",
        back_off=timedelta(minutes=1),
        worker="pay-1",
    )
    activate_jobs("default", Fetch(type=LABEL, worker="printer-cellar", timeout=timedelta(minutes=1), max_jobs=2))
    clients = _clients()
    held = {each.id for each in fetched[:-1]}
    shown = next(each for each in made if each.pk in held)
    return {"externalworkerjob": shown, "externalworker": _workers(), "gatewayclient": clients}


def _clients() -> GatewayClient:
    client, _secret = create_client("default", name="payments", types=[PAYMENT], permissions=["work"])
    create_client("default", name="printers", types=["print-*"], tenants=["acme", "globex"])
    create_client("default", name="night shift", permissions=["work", "search", "resolve"], enabled=False)
    GatewayClient.objects.filter(name="payments").update(last_use=clock.now() - timedelta(seconds=20))
    return client


def _workers() -> ExternalWorker:
    now = clock.now()
    rows = [
        ("grpc", "payments", "pay-1", PAYMENT, 1, 1, 5120, 2),
        ("grpc", "payments", "pay-2", PAYMENT, 1, 1, 4871, 3),
        ("rest v2", "printers", "printer-cellar", LABEL, 0, 1, 310, 4),
        ("rest c7", "printers", "printer-hall", LABEL, 0, 0, 12, 4000),
    ]
    made = [
        ExternalWorker.objects.create(
            gateway="gw1:26500",
            protocol=protocol,
            client=client,
            worker=worker,
            type=type,
            streams=streams,
            polls=polls,
            activated=count,
            first_seen=now - timedelta(hours=7),
            last_seen=now - timedelta(seconds=age),
        )
        for protocol, client, worker, type, streams, polls, count, age in rows
    ]
    return made[0]
