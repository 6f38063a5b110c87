"""Messages that clients publish over gRPC."""

import grpc
import pytest
from django.db import OperationalError

from jobexec.gateways.grpc import commands
from jobexec.models import AuditLog, Message
from jobexec.operations.manage.gateway_clients import create_client
from jobexec.operations.messages import publish
from tests.support.factories import make_job

from .test_access import as_client, code_of

pytestmark = [pytest.mark.transactional, pytest.mark.databases("sqlite")]
Code = grpc.StatusCode
GIVEN = {"name": "approved", "correlationKey": "4711"}


def rows(gateway):
    return Message.objects.using(gateway.alias)


def test_a_message_is_published(gateway):
    make_job(gateway.alias, waits_for="approved", waits_for_key="4711")
    answer = gateway.client.PublishMessage(**GIVEN, variables='{"by": "ann"}', timeToLive=60_000, messageId="m1")
    row = rows(gateway).get()
    assert (answer.key, answer.tenantId) == (row.pk, "<default>")
    assert (row.payload, row.message_id) == ({"by": "ann"}, "m1")
    assert (row.expiration_time - row.create_time).total_seconds() == 60


def test_without_what_may_be_missing(gateway):
    gateway.client.PublishMessage(**GIVEN, timeToLive=2**62)
    row = rows(gateway).get()
    assert (row.payload, row.message_id, (row.expiration_time - row.create_time).days) == ({}, None, 30)


def test_a_message_id_that_is_known(gateway):
    gateway.client.PublishMessage(**GIVEN, timeToLive=60_000, messageId="m1")
    with pytest.raises(grpc.RpcError) as caught:
        gateway.client.PublishMessage(**GIVEN, timeToLive=60_000, messageId="m1")
    assert caught.value.code() is Code.ALREADY_EXISTS
    assert caught.value.details().startswith("Command 'PUBLISH' rejected with code 'ALREADY_EXISTS'")
    assert rows(gateway).count() == 1


@pytest.mark.parametrize("id", ["", "m1"])
def test_a_message_whose_connection_is_lost_is_not_published_twice(gateway, monkeypatch, id):
    make = commands.publish_external_message

    def publish_and_lose_the_answer(*args, **named):
        make(*args, **named)
        raise OperationalError("the connection was lost")

    monkeypatch.setattr(commands, "publish_external_message", publish_and_lose_the_answer)
    code = code_of(lambda: gateway.client.PublishMessage(**GIVEN, timeToLive=60_000, messageId=id))
    assert (code, rows(gateway).count()) == (Code.ABORTED, 1)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"name": ""}, "name: expected"),
        ({"timeToLive": -1}, "timeToLive: expected"),
        ({"variables": "[1]"}, "variables: expected"),
        ({"variables": "{"}, "variables: expected"),
        ({"variables": f'{{"text": "{"x" * 70_000}"}}'}, "MESSAGE_MAX_PAYLOAD"),
        ({"tenantId": "x" * 65}, "tenant_id: expected"),
    ],
)
def test_bad_requests(gateway, given, words):
    with pytest.raises(grpc.RpcError) as caught:
        gateway.client.PublishMessage(**{**GIVEN, **given})
    assert caught.value.code() is Code.INVALID_ARGUMENT
    assert words in caught.value.details()
    assert not rows(gateway).exists()


class TestWho:
    @pytest.fixture
    def keys(self):
        return {"GATEWAY_AUTH": "required", "MESSAGE_MAX_KEPT": 1}

    def test_permission_tenants_and_room(self, gateway, monkeypatch):
        monkeypatch.setattr(publish, "_BELIEVED", 0)
        worker = as_client(gateway, f"Bearer {create_client(gateway.alias, name='worker')[1]}")
        given = {"name": "java", "permissions": ["publish"], "tenants": ["north"]}
        client = as_client(gateway, f"Bearer {create_client(gateway.alias, **given)[1]}")
        assert code_of(lambda: worker.PublishMessage(**GIVEN)) is Code.PERMISSION_DENIED
        assert code_of(lambda: client.PublishMessage(**GIVEN)) is Code.PERMISSION_DENIED
        assert client.PublishMessage(**GIVEN, tenantId="north", timeToLive=60_000).tenantId == "north"
        again = code_of(lambda: client.PublishMessage(**GIVEN, tenantId="north", timeToLive=60_000))
        assert again is Code.RESOURCE_EXHAUSTED
        assert rows(gateway).filter(tenant_id="north").count() == 1
        entry = AuditLog.objects.using(gateway.alias).get(verb="publish_message")
        assert (entry.operator_type, entry.operator, entry.via) == ("client", "java", "gRPC")
