"""The ASGI application that serves the gateways alone: no middleware, and a thread only for requests that need one."""

import asyncio
import json
import threading
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from django.core.handlers.asgi import ASGIHandler
from django.core.signals import request_finished, request_started
from django.http import HttpResponse
from django.test import AsyncRequestFactory

from jobexec import external_job
from jobexec.gateways import long_polling
from jobexec.gateways.auth import forget
from jobexec.gateways.rest.asgi import GatewayHandler
from jobexec.models import ExternalWorkerJob
from jobexec.operations.manage.gateway_clients import create_client
from tests.gateways import servers
from tests.support.waiting import TIMEOUT

pytestmark = pytest.mark.transactional

APPLICATION = "jobexec.gateways.rest.asgi:application"
ACTIVATION = {"type": "pay", "worker": "w", "timeout": 600_000, "maxJobsToActivate": 1, "requestTimeout": -1}
FETCH = {"workerId": "w", "maxTasks": 1, "topics": [{"topicName": "pay", "lockDuration": 600_000}]}


def forbidden_middleware(get_response):
    """Refuses everything."""
    return lambda request: HttpResponse(status=418)


def ask(handler, path, body=None, *, messages=None, **headers):
    """A whole request to a handler, in an event loop of its own; returns the status and the parts of the answer.

    None if there is no answer. ``messages`` are those with the body, if they are not one.
    """
    request = AsyncRequestFactory().generic(
        "GET" if body is None else "POST",
        path,
        "" if body is None else json.dumps(body),
        content_type="application/json",
        headers=headers,
    )
    messages = messages or [{"type": "http.request", "body": request.body, "more_body": False}]
    answer = []

    async def story():
        async def receive():
            if messages:
                return messages.pop(0)
            await asyncio.Event().wait()  # it stays connected

        async def send(message):
            answer.append(message)

        await handler(request.scope, receive, send)

    asyncio.run(asyncio.wait_for(story(), TIMEOUT))
    return (answer[0]["status"], b"".join(part.get("body", b"") for part in answer)) if answer else None


@pytest.fixture
def closed_in(monkeypatch):
    """The threads in which responses were closed."""
    threads = []
    original = HttpResponse.close

    def close(self):
        threads.append(threading.current_thread())
        original(self)

    monkeypatch.setattr(HttpResponse, "close", close)
    return threads


@pytest.mark.slow
@pytest.mark.usefixtures("v2")
def test_workers_are_served_whatever_middleware_and_urls_the_project_has(alias):
    job = external_job("pay", database=alias)
    other = external_job("pay", database=alias)
    middleware = [f"{__name__}.forbidden_middleware"]
    with servers.asgi(alias, application=APPLICATION, urls="demo_project.urls", MIDDLEWARE=middleware) as server:

        def post(path, body):
            request = Request(server.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
            with urlopen(request, timeout=TIMEOUT) as answer:
                return json.loads(answer.read() or "null")

        (found,) = post("/v2/jobs/activation", ACTIVATION)["jobs"]
        post(f"/v2/jobs/{found['jobKey']}/completion", {"variables": {}})
        (task,) = post("/engine-rest/external-task/fetchAndLock", FETCH)
        post(f"/engine-rest/external-task/{task['id']}/complete", {"workerId": "w"})
        assert {found["jobKey"], task["id"]} == {str(job.job_key), str(other.job_key)}
        with pytest.raises(HTTPError, match="404"):
            post("/admin/", {})
    assert not ExternalWorkerJob.objects.using(alias).exists()


@pytest.mark.parametrize(
    ("handler_class", "hands_over"), [(GatewayHandler, False), (ASGIHandler, True)], ids=["ours", "django"]
)
@pytest.mark.usefixtures("v2")
def test_a_request_of_a_known_client_needs_no_thread_of_its_own(handler_class, hands_over, settings, closed_in):
    settings.MIDDLEWARE = []
    status, content = ask(handler_class(), "/v2/jobs/activation", ACTIVATION)
    assert (status, json.loads(content)) == (200, {"jobs": []})
    assert [thread is not threading.current_thread() for thread in closed_in] == [hands_over]


def test_what_an_authentication_has_opened_is_closed_in_its_thread(engine, settings, closed_in):
    settings.JOBEXEC = {**settings.JOBEXEC, "GATEWAY_AUTH": "required"}
    secret = create_client(engine, name="payments")[1]
    handler = GatewayHandler()
    forget()
    for _ in range(2):
        assert ask(handler, "/v2/jobs/1/completion", {}, authorization=f"Bearer {secret}")[0] == 404
    assert [thread is threading.current_thread() for thread in closed_in] == [False, True]


@pytest.mark.usefixtures("v2")
def test_receivers_of_the_project_are_called_outside_of_the_event_loop():
    called = []

    def receiver(signal, **kwargs):
        called.append((signal, threading.current_thread() is threading.main_thread()))

    for signal in (request_started, request_finished):
        signal.connect(receiver)
    try:
        ask(GatewayHandler(), "/v2/topology")
    finally:
        for signal in (request_started, request_finished):
            signal.disconnect(receiver)
    assert called == [(request_started, False), (request_finished, False)]


@pytest.mark.parametrize("parts", [1, 2, 3])
@pytest.mark.usefixtures("v2")
def test_a_body_may_come_in_parts(alias, parts):
    job = external_job("pay", database=alias)
    content = json.dumps(ACTIVATION).encode()
    size = len(content) // parts + 1
    pieces = [content[start : start + size] for start in range(0, len(content), size)]
    messages = [{"type": "http.request", "body": piece, "more_body": True} for piece in pieces]
    messages[-1]["more_body"] = False
    status, answer = ask(GatewayHandler(), "/v2/jobs/activation", ACTIVATION, messages=messages)
    assert (status, [each["jobKey"] for each in json.loads(answer)["jobs"]]) == (200, [str(job.job_key)])


@pytest.mark.usefixtures("v2")
def test_a_client_that_goes_while_it_sends_is_not_answered():
    messages = [{"type": "http.request", "body": b"{", "more_body": True}, {"type": "http.disconnect"}]
    assert ask(GatewayHandler(), "/v2/jobs/activation", ACTIVATION, messages=messages) is None


def long_poll():
    """The scope and the messages of a request that waits for jobs."""
    request = AsyncRequestFactory().post("/v2/jobs/activation", {}, content_type="application/json")
    content = json.dumps({**ACTIVATION, "requestTimeout": 600_000}).encode()
    return request.scope, [{"type": "http.request", "body": content, "more_body": False}]


@pytest.mark.usefixtures("v2")
def test_a_client_that_goes_while_it_waits_gives_up_its_place(alias):
    waiting = long_polling.of(alias).queue

    async def story():
        scope, messages = long_poll()

        async def receive():
            if messages:
                return messages.pop()
            while not waiting.count():
                await asyncio.sleep(0.001)
            return {"type": "http.disconnect"}

        async def send(message):
            pytest.fail("nobody is there")

        task = asyncio.current_task()
        await GatewayHandler()(scope, receive, send)
        assert not task.cancelling()
        await asyncio.sleep(0)  # nor is it cancelled later

    asyncio.run(asyncio.wait_for(story(), TIMEOUT))
    assert waiting.count() == 0


@pytest.mark.usefixtures("v2")
def test_a_server_that_ends_cancels_a_request_that_waits(alias):
    waiting = long_polling.of(alias).queue

    async def story():
        scope, messages = long_poll()

        async def receive():
            return messages.pop() if messages else await asyncio.Event().wait()

        async def send(message):
            pytest.fail("it was cancelled")

        task = asyncio.ensure_future(GatewayHandler()(scope, receive, send))
        while not waiting.count():
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(asyncio.wait_for(story(), TIMEOUT))


@pytest.mark.usefixtures("v2")
def test_hosts_that_are_not_allowed_are_refused(settings):
    settings.ALLOWED_HOSTS = ["testserver"]
    assert ask(GatewayHandler(), "/v2/topology")[0] == 200
    settings.ALLOWED_HOSTS = ["gateway.example.com"]
    assert ask(GatewayHandler(), "/v2/topology")[0] == 400


@pytest.mark.usefixtures("v2")
def test_an_error_of_the_server_is_raised_as_itself():
    """A connection that breaks while the answer is sent is told to the server as Django tells it."""

    async def story():
        request = AsyncRequestFactory().get("/v2/topology")
        messages = [{"type": "http.request", "body": b"", "more_body": False}]

        async def receive():
            if messages:
                return messages.pop()
            await asyncio.Event().wait()

        async def send(message):
            raise ConnectionResetError

        await GatewayHandler()(request.scope, receive, send)

    with pytest.raises(ConnectionResetError):
        asyncio.run(asyncio.wait_for(story(), TIMEOUT))
