"""A client that is disabled, or has a new secret, gets no job any more, also if it was waiting then. Over REST.

Over gRPC: tests/gateways/grpc/test_access.py.
"""

import asyncio
import json
import threading

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.db import connections
from django.test import AsyncClient, Client

from jobexec import external_job
from jobexec.gateways import long_polling
from jobexec.gateways.auth import credential_cache
from jobexec.models import ExternalWorkerJob
from jobexec.operations.manage.gateway_clients import create_client, rotate_secret, set_client_enabled
from tests.support.waiting import TIMEOUT, until

pytestmark = pytest.mark.transactional

MINUTES = 5 * 60_000
DOORS = {
    "v2": (
        "jobexec.gateways.rest.urls",
        "/v2/jobs/activation",
        {"type": "pay", "worker": "w", "timeout": 60_000, "maxJobsToActivate": 9, "requestTimeout": MINUTES},
        lambda answer: answer["jobs"],
    ),
    "engine-rest": (
        "jobexec.gateways.rest.camunda7.urls",
        "/external-task/fetchAndLock",
        {
            "workerId": "w",
            "maxTasks": 9,
            "asyncResponseTimeout": MINUTES,
            "topics": [{"topicName": "pay", "lockDuration": 60_000}],
        },
        lambda answer: answer,
    ),
}


@pytest.fixture(params=DOORS)
def door(request, alias, settings, monkeypatch):
    """A function that asks for jobs and waits for them; `secret` is that of the client."""
    urls, path, body, jobs = DOORS[request.param]
    keys = {"GATEWAY_DATABASE": alias, "GATEWAY_AUTH": "required", "GATEWAY_USERS": True}
    settings.JOBEXEC = {**settings.JOBEXEC, "ENGINES": {alias: {}}, **keys}
    settings.ROOT_URLCONF = urls
    monkeypatch.setattr(credential_cache, "SECONDS", 0.0)
    return path, json.dumps(body), jobs


class Asking(threading.Thread):
    """A request that is held, as a server without ASGI would have it, and one with it."""

    def __init__(self, door, client=None, **headers):
        super().__init__(daemon=True)
        self.path, self.body, self.jobs = door
        self.client, self.headers, self.answer = client or Client(), headers, None
        self.start()

    def run(self):
        try:
            if isinstance(self.client, AsyncClient):
                self.answer = asyncio.run(self._ask())
            else:
                response = self.client.generic("POST", self.path, self.body, "application/json", headers=self.headers)
                self.answer = response.status_code, response.content
        finally:
            connections.close_all()

    async def _ask(self):
        response = await self.client.generic("POST", self.path, self.body, "application/json", headers=self.headers)
        parts = [part async for part in response.streaming_content] if response.streaming else [response.content]
        return response.status_code, b"".join(parts)

    def ended(self):
        self.join(TIMEOUT)
        assert not self.is_alive()
        status, content = self.answer
        assert status == 200, content
        return self.jobs(json.loads(content))


def waits(alias):
    until(lambda: long_polling.of(alias).queue.count() == 1)


@pytest.mark.parametrize("server", [Client, AsyncClient], ids=["wsgi", "asgi"])
@pytest.mark.parametrize("change", ["disabled", "rotated", "of other tenants"])
def test_who_waits_when_it_is_changed(alias, door, server, change):
    row, secret = create_client(alias, name="java")
    asking = Asking(door, server(), authorization=f"Bearer {secret}")
    waits(alias)
    if change == "disabled":
        set_client_enabled(alias, "java", False)
    elif change == "rotated":
        rotate_secret(alias, "java")
    else:
        type(row).objects.using(alias).update(tenants=["acme"])
    long_polling.of(alias).queue.wake()  # word of a job
    assert asking.ended() == []
    external_job("pay", database=alias)
    assert not ExternalWorkerJob.objects.using(alias).exclude(lock_owner=None).exists()


@pytest.mark.parametrize("server", [Client, AsyncClient], ids=["wsgi", "asgi"])
def test_who_waits_and_is_as_before(alias, door, server):
    _row, secret = create_client(alias, name="java")
    asking = Asking(door, server(), authorization=f"Bearer {secret}")
    waits(alias)
    long_polling.of(alias).queue.wake()
    external_job("pay", database=alias)
    assert len(asking.ended()) == 1


@pytest.mark.databases("sqlite")
@pytest.mark.parametrize("active", [True, False])
def test_a_user_who_is_logged_in(alias, door, settings, active):
    settings.MIDDLEWARE = [
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.contrib.auth.middleware.AuthenticationMiddleware",
    ]
    user = get_user_model().objects.create_user("ann")
    user.user_permissions.set(Permission.objects.filter(codename__in=["use_gateway"]))
    client = Client()
    client.force_login(user)
    asking = Asking(door, client)
    waits(alias)
    get_user_model().objects.update(is_active=active)
    long_polling.of(alias).queue.wake()
    if active:
        external_job("pay", database=alias)
    assert len(asking.ended()) == int(active)
