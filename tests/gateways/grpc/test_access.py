"""Who may use the gateway over gRPC: without TLS and with it, with tokens and certificates; and who is written down."""

import base64
import logging
import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest

from jobexec.exceptions import Unauthenticated
from jobexec.gateways import auth, long_polling
from jobexec.gateways.auth import credential_cache, tokens
from jobexec.gateways.grpc import stream_dispatch
from jobexec.gateways.long_polling import watch
from jobexec.models import GatewayClient
from jobexec.operations.manage.gateway_clients import create_client, set_client_enabled
from tests.support.audit import audit_log
from tests.support.waiting import until

from .bed import Client, Streamed

pytestmark = [pytest.mark.transactional, pytest.mark.databases("sqlite")]
CODE = grpc.StatusCode


@pytest.fixture
def keys():
    return {"GATEWAY_AUTH": "required", "GATEWAY_REQUESTS_PER_SECOND": 100_000}


def code_of(call: Callable[[], object]) -> grpc.StatusCode:
    try:
        call()
    except grpc.RpcError as error:
        return error.code()
    return CODE.OK


def as_client(gateway, authorization, **options) -> Client:
    client: Client = gateway.another(metadata=(("authorization", authorization),), **options)
    return client


def test_nobody_is_let_in_without_credentials(gateway):
    gateway.make()
    for authorization in (None, "", "Bearer jxc_x", "Basic x", "Bearer"):
        client = gateway.client if authorization is None else as_client(gateway, authorization)
        assert code_of(lambda client=client: client.activate("payment")) is CODE.UNAUTHENTICATED
        assert code_of(lambda client=client: client.CompleteJob(jobKey=1)) is CODE.UNAUTHENTICATED
        assert code_of(lambda client=client: list(client.stream("payment", deadline=30))) is CODE.UNAUTHENTICATED
    assert gateway.held() == 0


def test_a_client_does_what_it_may(gateway):
    row, secret = create_client(gateway.alias, name="java", types=["pay*"], tenants=["", "acme"])
    job, other = gateway.make("payment"), gateway.make("mail")
    acme, beta = (gateway.make("payment", tenant_id=tenant) for tenant in ("acme", "b"))
    basic = base64.b64encode(f"java:{secret}".encode()).decode()
    for authorization in (f"Bearer {secret}", f"Basic {basic}", f"Bearer {tokens.issue(row)[0]}"):
        client = as_client(gateway, authorization)
        assert client.Topology().clusterSize
    assert code_of(lambda: client.activate("mail")) is CODE.PERMISSION_DENIED
    assert code_of(lambda: client.activate("payment", tenantIds=["b"])) is CODE.PERMISSION_DENIED
    assert {each.key for each in client.activate("payment", 9)} == {job.job_key, acme.job_key}
    key = beta.job_key
    assert code_of(lambda: client.CompleteJob(jobKey=key)) is CODE.NOT_FOUND
    assert code_of(lambda: client.FailJob(jobKey=key)) is CODE.NOT_FOUND
    assert code_of(lambda: client.ThrowError(jobKey=key, errorCode="X")) is CODE.NOT_FOUND
    assert code_of(lambda: client.UpdateJobTimeout(jobKey=key, timeout=9)) is CODE.NOT_FOUND
    assert code_of(lambda: client.CompleteJob(jobKey=other.job_key)) is CODE.PERMISSION_DENIED
    assert code_of(lambda: client.UpdateJobRetries(jobKey=job.job_key, retries=9)) is CODE.PERMISSION_DENIED
    assert code_of(lambda: client.ResolveIncident(incidentKey=1)) is CODE.PERMISSION_DENIED
    assert code_of(lambda: client.CompleteJob(jobKey=job.job_key)) is CODE.OK
    assert {row.job_key for row in gateway.rows()} == {acme.job_key, beta.job_key, other.job_key}


def test_who_is_nobody_does_not_keep_others_from_handing_in(gateway, monkeypatch):
    """To find out who somebody is takes long, or is asked by very many at once."""
    monkeypatch.setattr(credential_cache, "SECONDS", 1000.0)
    _row, secret = create_client(gateway.alias, name="java")
    client, job = as_client(gateway, f"Bearer {secret}"), gateway.make()
    assert client.activate("payment")
    asked, go = threading.Semaphore(0), threading.Event()

    def slow(*credentials, **more):
        asked.release()
        go.wait(60)
        raise Unauthenticated

    monkeypatch.setattr(auth, "authenticate", slow)
    with ThreadPoolExecutor(12) as strangers:
        guesses = [as_client(gateway, f"Bearer jxc_{number}") for number in range(12)]
        tries = [strangers.submit(code_of, lambda each=each: each.CompleteJob(jobKey=1)) for each in guesses]
        assert asked.acquire(timeout=50)
        assert asked.acquire(timeout=50)
        try:
            assert code_of(lambda: client.CompleteJob(jobKey=job.job_key)) is CODE.OK
        finally:
            go.set()
        assert {each.result() for each in tries} == {CODE.UNAUTHENTICATED}


def test_a_client_that_is_disabled(gateway, monkeypatch):
    monkeypatch.setattr(credential_cache, "SECONDS", 0.0)
    _row, secret = create_client(gateway.alias, name="java")
    client = as_client(gateway, f"Bearer {secret}")
    gateway.make()
    assert len(client.activate("payment")) == 1
    set_client_enabled(gateway.alias, "java", False)
    assert code_of(lambda: client.activate("payment")) is CODE.UNAUTHENTICATED


@pytest.mark.parametrize("enabled", [True, False])
def test_a_client_that_is_disabled_while_it_waits(gateway, monkeypatch, enabled):
    monkeypatch.setattr(credential_cache, "SECONDS", 0.0)
    _row, secret = create_client(gateway.alias, name="java")
    client = as_client(gateway, f"Bearer {secret}")
    waiting = Streamed(client.poll("payment", wait=55_000, deadline=90))
    gateway.waiting(1)
    set_client_enabled(gateway.alias, "java", enabled)
    long_polling.of(gateway.alias).queue.wake()
    if enabled:
        gateway.make("payment")
    assert waiting.ended() is CODE.OK
    assert gateway.held() == int(enabled)


def test_a_client_that_is_disabled_while_it_streams(gateway, monkeypatch):
    monkeypatch.setattr(credential_cache, "SECONDS", 0.0)
    _row, secret = create_client(gateway.alias, name="java")
    stream = Streamed(as_client(gateway, f"Bearer {secret}").stream("payment", deadline=90))
    gateway.waiting(1)
    gateway.make("payment")
    until(lambda: len(stream.jobs) == 1)
    gateway.waiting(1)
    set_client_enabled(gateway.alias, "java", False)
    long_polling.of(gateway.alias).queue.wake()
    assert stream.ended() is CODE.OK
    assert len(stream.jobs) == gateway.held() == 1


def test_what_a_disabled_stream_has_heard_is_told_to_others(gateway, monkeypatch):
    monkeypatch.setattr(credential_cache, "SECONDS", 0.0)
    for probe in ("PROBE", "PROBE_WHEN_DEAF"):
        monkeypatch.setattr(watch, probe, 600.0)
    looks, look = [], stream_dispatch.Feed._look

    async def counted(feed, room):
        found = await look(feed, room)
        looks.append(found)
        return found

    monkeypatch.setattr(stream_dispatch.Feed, "_look", counted)
    secrets = [create_client(gateway.alias, name=name)[1] for name in ("java", "go")]
    streams = []
    for number, secret in enumerate(secrets, 1):
        streams.append(Streamed(as_client(gateway, f"Bearer {secret}").stream("payment", deadline=90)))
        until(lambda n=number: len(looks) == n)  # nobody was verified before, and looks only now
    set_client_enabled(gateway.alias, "java", False)
    gateway.make("payment")
    until(lambda: len(streams[1].jobs) == 1)
    assert streams[0].ended() is CODE.OK and not streams[0].jobs


def test_too_many_requests_and_what_finishes_a_job(gateway, no_refill):
    _row, secret = create_client(gateway.alias, name="java", max_requests_per_second=1)
    client = as_client(gateway, f"Bearer {secret}")
    codes = [code_of(lambda: client.activate("payment")) for _ in range(3)]
    assert codes == [CODE.OK, CODE.RESOURCE_EXHAUSTED, CODE.RESOURCE_EXHAUSTED]
    keys = [gateway.make().job_key for _ in range(6)]
    assert {code_of(lambda key=key: client.CompleteJob(jobKey=key)) for key in keys[:3]} == {CODE.OK}
    assert {code_of(lambda key=key: client.FailJob(jobKey=key, retries=1)) for key in keys[3:]} == {CODE.OK}


@pytest.mark.gate
@pytest.mark.parametrize("call", ["CompleteJob", "FailJob", "ThrowError", "UpdateJobTimeout"])
def test_what_is_said_of_no_job_is_bounded(gateway, no_refill, call):
    _row, secret = create_client(gateway.alias, name="java", max_requests_per_second=1)
    client = as_client(gateway, f"Bearer {secret}")
    fields = {"CompleteJob": {}, "FailJob": {}, "ThrowError": {"errorCode": "X"}, "UpdateJobTimeout": {"timeout": 9}}
    codes = [code_of(lambda: getattr(client, call)(jobKey=1, **fields[call])) for _ in range(102)]
    assert codes == [CODE.NOT_FOUND] * 100 + [CODE.RESOURCE_EXHAUSTED] * 2


def test_what_an_operator_changes_is_logged_with_his_name(gateway, caplog):
    _row, secret = create_client(gateway.alias, name="ops", permissions=["update", "resolve"])
    client, job = as_client(gateway, f"Bearer {secret}"), gateway.make()
    caplog.set_level(logging.INFO, "jobexec.gateway")
    client.UpdateJobRetries(jobKey=job.job_key, retries=9)
    client.UpdateJobPriority(jobKey=job.job_key, priority=3)
    assert code_of(lambda: client.UpdateJobRetries(jobKey=1, retries=9)) is CODE.NOT_FOUND
    said = [record.message for record in caplog.records if hasattr(record, "gateway_client")]
    assert said == [
        f"The client 'ops': UpdateJobRetries '{job.job_key}'.",
        f"The client 'ops': UpdateJobPriority '{job.job_key}'.",
    ]
    noted = [(entry.operator, entry.via, entry.origin, entry.new_value) for entry in audit_log(gateway.alias)]
    assert noted == [("ops", "gRPC", "127.0.0.1", {"retries": 9}), ("ops", "gRPC", "127.0.0.1", {"priority": 3})]


# TLS.


def certificate(folder: Path, name: str, authority: str | None = None, extension: str = "") -> None:
    """A key and a certificate for this common name; signed by an authority, or by itself."""
    subject = ["-subj", f"/CN={name}", "-keyout", folder / f"{name}.key", "-out", folder / f"{name}.pem"]
    signer = ["-CA", folder / f"{authority}.pem", "-CAkey", folder / f"{authority}.key"] if authority else []
    extensions = ["-addext", extension] if extension else []
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    line = ["openssl", "req", "-x509", *curve, "-days", "2", *subject, *signer, *extensions]
    subprocess.run(list(map(str, line)), check=True, capture_output=True, timeout=30)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Certificates: of the server, of clients, and of somebody whom another authority has signed."""
    for authority in ("ca", "other-ca"):
        certificate(tmp_path, authority, extension="basicConstraints=critical,CA:TRUE")
    certificate(tmp_path, "server", "ca", "subjectAltName=IP:127.0.0.1,DNS:localhost")
    for name in ("java", "stranger"):
        certificate(tmp_path, name, "ca", f"subjectAltName=DNS:{name}.example.org")
    (tmp_path / "evil").mkdir()
    for kind in ("pem", "key"):
        (tmp_path / "evil" / f"other-ca.{kind}").write_bytes((tmp_path / f"other-ca.{kind}").read_bytes())
    certificate(tmp_path / "evil", "java", "other-ca")
    return tmp_path


@pytest.fixture
def options(request):
    if "folder" not in request.fixturenames:
        return {}
    folder = request.getfixturevalue("folder")
    return {
        "tls_cert": folder / "server.pem",
        "tls_key": folder / "server.key",
        "client_ca": folder / "ca.pem" if "mutual" in request.node.name else None,
    }


def credentials(folder: Path, name: str | None = None, of: str = "") -> grpc.ChannelCredentials:
    pair = [(folder / of / f"{name}.{kind}").read_bytes() for kind in ("key", "pem")] if name else [None, None]
    return grpc.ssl_channel_credentials((folder / "ca.pem").read_bytes(), *pair)


def test_tls_protects_the_secret(folder, gateway):
    _row, secret = create_client(gateway.alias, name="java")
    client = as_client(gateway, f"Bearer {secret}", credentials=credentials(folder))
    assert client.Topology().clusterSize
    # Without one that the server has asked for and verified, a name in a certificate says nothing.
    shown = gateway.another(credentials=credentials(folder, "java"))
    assert code_of(shown.Topology) is CODE.UNAUTHENTICATED
    assert code_of(gateway.client.Topology) is CODE.UNAVAILABLE


def test_mutual_tls_maps_a_certificate_to_a_client_by_its_name(folder, gateway):
    create_client(gateway.alias, name="java", types=["payment"])
    job = gateway.make()
    client = gateway.another(credentials=credentials(folder, "java"))
    assert [each.key for each in client.activate("payment")] == [job.job_key]
    assert code_of(lambda: client.activate("mail")) is CODE.PERMISSION_DENIED
    assert code_of(gateway.another(credentials=credentials(folder, "stranger")).Topology) is CODE.UNAUTHENTICATED
    for nobody in (credentials(folder), credentials(folder, "java", of="evil")):
        assert code_of(gateway.another(credentials=nobody).Topology) is CODE.UNAVAILABLE
    GatewayClient.objects.using(gateway.alias).update(name="java.example.org")
    assert len(gateway.another(credentials=credentials(folder, "java")).Topology().brokers) == 1


def test_an_open_stream_ends_well_when_its_token_is_over(gateway, monkeypatch):
    """The client opens another with a new token; an error would end some of them for good."""
    monkeypatch.setattr("jobexec.gateways.grpc.streams.LOOK", 0.05)
    monkeypatch.setattr(credential_cache, "SECONDS", 0.0)
    row, _secret = create_client(gateway.alias, name="java")
    client = as_client(gateway, f"Bearer {tokens.issue(row)[0]}")
    stream = Streamed(client.stream("payment"))
    gateway.waiting(1)
    set_client_enabled(gateway.alias, "java", False)
    assert stream.ended() is CODE.OK
    gateway.make()
    assert code_of(lambda: list(client.stream("payment", deadline=30))) is CODE.UNAUTHENTICATED
    assert gateway.held() == 0
