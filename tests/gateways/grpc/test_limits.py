"""What one who calls can take of a gateway: before it is known who it is, and after."""

import logging
import threading
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from jobexec.exceptions import Unauthenticated
from jobexec.gateways import auth
from jobexec.gateways.auth import address_of, credential_cache
from jobexec.gateways.grpc import call_context, gateway_pb2, open_services
from jobexec.operations.manage.gateway_clients import create_client
from tests.support.waiting import until

from .bed import Streamed

pytestmark = [pytest.mark.transactional, pytest.mark.databases("sqlite")]
CODE = grpc.StatusCode


@pytest.fixture
def keys(alias, monkeypatch):
    monkeypatch.setattr(call_context, "STRANGERS", 8)
    return {"GATEWAY_AUTH": "required", "GATEWAY_DATABASE": alias}


def code_of(call):
    try:
        call()
    except grpc.RpcError as error:
        return error.code()
    return CODE.OK


def worker(gateway, name="java", **fields):
    _, secret = create_client(gateway.alias, name=name, **fields)
    return gateway.another(metadata=(("authorization", f"Bearer {secret}"),))


def without_message(client, method):
    """How a call ends whose headers are sent, and whose message never is."""
    gone = threading.Event()

    def messages():
        gone.wait(60)
        yield from ()

    start = client.channel.stream_unary(f"/gateway_protocol.Gateway/{method}").future
    call = start(messages(), timeout=50, metadata=client.metadata)
    try:
        return call.code()
    finally:
        gone.set()


METHODS = [method.name for method in gateway_pb2.DESCRIPTOR.services_by_name["Gateway"].methods]


@pytest.mark.parametrize("method", METHODS)
def test_a_stranger_is_refused_before_the_message_is_received(gateway, method):
    assert without_message(gateway.client, method) is CODE.UNAUTHENTICATED


def test_what_is_not_allowed_or_too_much_is_refused_before_the_message_is_received(gateway, no_refill):
    client = worker(gateway, max_requests_per_second=1)
    assert without_message(client, "ResolveIncident") is CODE.PERMISSION_DENIED
    assert client.activate("payment") == []
    assert without_message(client, "ActivateJobs") is CODE.RESOURCE_EXHAUSTED


def test_strangers_have_so_many_places_and_who_was_let_in_before_needs_none(gateway, monkeypatch):
    monkeypatch.setattr(credential_cache, "SECONDS", 0.0)
    client, authenticate = worker(gateway), auth.authenticate
    assert client.activate("payment") == []
    go, known = threading.Event(), client.metadata[0][1]

    def slow(authorization, *rest, **named):
        if authorization != known:
            go.wait(60)
            raise Unauthenticated
        return authenticate(authorization, *rest, **named)

    monkeypatch.setattr(auth, "authenticate", slow)
    guesses = [gateway.another(metadata=(("authorization", f"Bearer jxc_{number}"),)) for number in range(40)]
    with ThreadPoolExecutor(40) as strangers:
        tries = [strangers.submit(code_of, each.Topology) for each in guesses]
        try:
            until(lambda: sum(each.done() for each in tries) == 40 - 6)
            assert code_of(client.Topology) is CODE.OK
        finally:
            go.set()
        codes = [each.result() for each in tries]
    assert set(codes) == {CODE.UNAUTHENTICATED, CODE.RESOURCE_EXHAUSTED}
    assert codes.count(CODE.UNAUTHENTICATED) == 6  # of 8 places: one address does not take all


def test_garbage_leaves_nothing_behind(gateway, monkeypatch):
    monkeypatch.setattr(credential_cache, "_MOST", 10)
    client = worker(gateway)
    assert client.activate("payment") == []
    for number in range(30):
        stranger = gateway.another(metadata=(("authorization", f"Bearer jxc_{number}"),))
        assert code_of(stranger.Topology) in (CODE.UNAUTHENTICATED, CODE.RESOURCE_EXHAUSTED)
        stranger.close()
    until(lambda: not gateway.gateway._call_context._asked)
    assert len(credential_cache._refused) <= 10 and len(credential_cache._clients) == 1


@pytest.mark.parametrize(
    "path", ["/grpc.health.v1.Health/Check", "/gateway_protocol.Gateway/Topology", "/gateway_protocol.Gateway/FailJob"]
)
def test_what_is_no_message_is_a_mistake_of_the_client(gateway, caplog, path):
    client = worker(gateway)
    call = client.channel.unary_unary(path)
    assert code_of(lambda: call(b"\xff\xff", timeout=60, metadata=client.metadata)) is CODE.INVALID_ARGUMENT
    assert not [line for line in caplog.records if line.levelno >= logging.ERROR]


class TestPlaces:
    @pytest.fixture
    def options(self):
        return {"max_streams": 4}

    def test_one_client_does_not_take_the_places_of_all(self, gateway):
        greedy, other = worker(gateway, "greedy"), worker(gateway, "other")
        polls = [Streamed(greedy.poll("payment", wait=50_000)) for _ in range(8)]
        until(lambda: gateway.gateway.service.open == 3)
        until(lambda: [poll.code for poll in polls].count(CODE.RESOURCE_EXHAUSTED) == 5)
        stream = Streamed(other.stream("payment"))
        until(lambda: gateway.gateway.service.open == 4)
        gateway.make()
        until(lambda: stream.jobs or any(poll.jobs for poll in polls))


class TestOpenServices:
    def check(self, gateway, name=""):
        request = health_pb2.HealthCheckRequest(service=name)
        return health_pb2_grpc.HealthStub(gateway.client.channel).Check(request, timeout=60)

    def test_messages_of_strangers_are_small(self, gateway):
        assert code_of(lambda: self.check(gateway, "x" * 20_000)) is CODE.RESOURCE_EXHAUSTED
        assert code_of(lambda: self.check(gateway)) is CODE.OK

    @pytest.fixture
    def silent(self, gateway, monkeypatch):
        """Calls from these addresses whose message never comes."""
        monkeypatch.setattr(open_services, "_PATIENCE", 50.0)
        gone, calls = threading.Event(), []

        def messages():
            gone.wait(60)
            yield from ()

        def begin(*addresses):
            for address in addresses:
                monkeypatch.setattr(open_services, "address_of", lambda peer, address=address: address)
                begun = gateway.client.channel.stream_unary("/grpc.health.v1.Health/Check").future
                calls.append(begun(messages(), timeout=50))
                until(lambda: received() == min(len(calls), open_services.MESSAGES))
            return calls

        def received():
            return len(gateway.gateway._for_all._receiving._reads)

        yield begin
        gone.set()

    def test_some_are_received_at_a_time(self, silent):
        calls = silent(*["10.0.0.7"] * 9)
        until(lambda: sum(call.done() for call in calls) == 9 - open_services.MESSAGES)
        assert {call.code() for call in calls if call.done()} == {CODE.RESOURCE_EXHAUSTED}

    def test_who_sends_nothing_keeps_nobody_from_asking_for_the_health(self, gateway, silent, monkeypatch):
        silent("10.0.0.7", "10.0.0.7", "10.0.0.7", "10.0.0.8")
        monkeypatch.setattr(open_services, "address_of", lambda peer: "10.0.0.9")
        assert {code_of(lambda: self.check(gateway)) for _ in range(3)} == {CODE.OK}


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        ("ipv4:10.0.0.7:5123", "10.0.0.7"),
        ("ipv6:%5B2001:db8:1:2:3:4:5:6%5D:80", "2001:db8:1:2::/64"),
        ("ipv6:[::1]:80", "::/64"),
        ("::ffff:10.0.0.7", "10.0.0.7"),
        ("10.0.0.7", "10.0.0.7"),
        ("unix:", "unix:"),
        ("", ""),
    ],
)
def test_where_somebody_is(peer, address):
    assert address_of(peer) == address
