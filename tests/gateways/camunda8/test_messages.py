"""Camunda 8 REST: messages that clients publish for jobs that wait."""

from datetime import timedelta

import pytest
from django.db import OperationalError

from jobexec import clock, current_job
from jobexec.gateways.rest.camunda8 import messages
from jobexec.models import Message
from jobexec.operations.manage.gateway_clients import create_client
from jobexec.testing import ManualExecutor
from tests.gateways.v2 import V2
from tests.support.factories import make_job

PATH = "/messages/publication"
BODY = {"name": "approved", "correlationKey": "4711"}


@pytest.mark.smoke
def test_a_job_receives_what_a_client_publishes(alias, v2, handle):
    seen = []
    handle(lambda: seen.append(current_job().message.payload), name="tests.pay")
    make_job(alias, handler_type="tests.pay", waits_for="approved", waits_for_key="4711")
    answer = v2.post(PATH, {**BODY, "variables": {"by": "ann"}, "messageId": "m1"})
    assert (v2.status, answer["tenantId"]) == (200, "<default>")
    message = Message.objects.using(alias).get()
    assert (answer["messageKey"], message.payload, message.message_id) == (str(message.pk), {"by": "ann"}, "m1")
    ManualExecutor(alias).run_until_empty()
    assert seen == [{"by": "ann"}]


def test_how_long_it_is_kept(alias, v2):
    with clock.FrozenClock() as time:
        for number in (60_000, 2**62, 0):
            v2.post(PATH, {**BODY, "timeToLive": number})
            assert v2.status == 200
        found = list(Message.objects.using(alias).order_by("pk").values_list("expiration_time", flat=True))
        assert found == [time.now + timedelta(minutes=1), time.now + timedelta(days=30), None]


def test_a_message_id_that_is_known(alias, v2):
    body = {**BODY, "timeToLive": 60_000, "messageId": "m1"}
    v2.post(PATH, body)
    v2.post(PATH, body)
    v2.refused(409, "ALREADY_EXISTS", "m1")
    assert Message.objects.using(alias).count() == 1


def test_a_lost_connection(v2, monkeypatch):
    def lost(*args, **named):
        raise OperationalError("the connection was lost")

    monkeypatch.setattr(messages, "publish_external_message", lost)
    v2.post(PATH, BODY)
    v2.refused(502, "ABORTED", "unknown whether")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"name": None}, "name: expected"),
        ({"name": " "}, "name: expected"),
        ({"name": "x" * 129}, "name: expected a string of 1 to 128"),
        ({"correlationKey": 5}, "correlationKey: expected"),
        ({"timeToLive": "PT1H"}, "timeToLive: expected"),
        ({"timeToLive": -1}, "timeToLive: expected"),
        ({"variables": [1]}, "variables: expected"),
        ({"variables": {"text": "x" * 70_000}}, "MESSAGE_MAX_PAYLOAD"),
        ({"messageId": "x" * 256}, "message_id: expected"),
        ({"tenantId": "x" * 65}, "tenant_id: expected"),
    ],
)
def test_bad_requests(alias, v2, given, words):
    v2.post(PATH, {**BODY, **given})
    v2.refused(400, "INVALID_ARGUMENT", words)
    assert not Message.objects.using(alias).exists()


def test_too_many(alias, v2, settings):
    Message.objects.using(alias).create(id=1, name="a", key="b", expiration_time=clock.now() + timedelta(days=1))
    settings.JOBEXEC = {**settings.JOBEXEC, "MESSAGE_MAX_KEPT": 1}
    v2.post(PATH, {**BODY, "timeToLive": 1000})
    v2.refused(503, "RESOURCE_EXHAUSTED", "MESSAGE_MAX_KEPT")


class TestWho:
    @pytest.fixture(autouse=True)
    def required(self, v2, settings):
        settings.JOBEXEC = {**settings.JOBEXEC, "GATEWAY_AUTH": "required"}

    def client(self, alias, **given):
        return V2(f"Bearer {create_client(alias, name='java', **given)[1]}")

    def test_needs_the_permission(self, alias):
        client = self.client(alias, permissions=["work", "search", "update", "resolve"])
        client.post(PATH, BODY)
        client.refused(403, "FORBIDDEN", "'publish'")
        assert not Message.objects.using(alias).exists()

    def test_only_for_its_tenants(self, alias):
        client = self.client(alias, permissions=["publish"], tenants=["north"])
        client.post(PATH, {**BODY, "tenantId": "north"})
        assert (client.status, client.body["tenantId"]) == (200, "north")
        for tenant in ("south", "<default>"):
            client.post(PATH, {**BODY, "tenantId": tenant})
            client.refused(403, "FORBIDDEN")
        assert Message.objects.using(alias).get().tenant_id == "north"
