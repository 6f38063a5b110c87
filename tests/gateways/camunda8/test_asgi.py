"""The REST API under a real ASGI server: who waits holds no thread, and who has gone takes no job with him."""

import asyncio
import gc
import json
import signal
import socket
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
from django.core.handlers.asgi import ASGIHandler
from django.db import connections
from django.test import AsyncRequestFactory
from django.utils.decorators import async_only_middleware

from jobexec import external_job
from jobexec.gateways.rest import waiting_room
from jobexec.gateways.rest.asgi import GatewayHandler
from jobexec.models import ExternalWorkerJob
from tests.gateways import servers
from tests.support.waiting import TIMEOUT, until

pytestmark = [pytest.mark.transactional, pytest.mark.usefixtures("v2")]

ASKED = {"type": "pay", "worker": "w", "timeout": 600_000, "maxJobsToActivate": 1}


def activate(server, **members):
    body = json.dumps({**ASKED, **members}).encode()
    request = Request(f"{server.url}/v2/jobs/activation", body, {"Content-Type": "application/json"})
    with urlopen(request, timeout=TIMEOUT) as answer:
        assert answer.headers["Content-Type"] == "application/json"
        return json.load(answer)["jobs"]


def hang(server, **members):
    """A client that asks and can be cut off; returns its socket."""
    body = json.dumps({**ASKED, **members}).encode()
    raw = socket.create_connection(("127.0.0.1", server.port))
    head = (
        f"POST /v2/jobs/activation HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    )
    raw.sendall(f"{head}\r\n\r\n".encode() + body)
    return raw


def threads_of(server):
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("Threads:")))


@pytest.mark.gate
@pytest.mark.databases("postgresql")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_server_that_shuts_down_answers_who_waits(alias, number):
    alone = "jobexec.gateways.rest.asgi:application"
    with servers.asgi(alias, application=alone) as server, ThreadPoolExecutor(1) as pool:
        assert activate(server, requestTimeout=-1) == []  # it has begun to work
        waiting = pool.submit(activate, server, requestTimeout=600_000)
        assert activate(server, type="other", requestTimeout=50) == []  # and whoever came before waits
        server.process.send(number)
        assert waiting.result(TIMEOUT) == []
        server.process.ended()


@pytest.mark.gate
def test_a_held_request_is_woken_by_a_job_of_another_process(alias):
    with servers.asgi(alias, probes=False) as server, ThreadPoolExecutor(1) as pool:
        assert activate(server, requestTimeout=-1) == []  # it has begun to work
        waiting = pool.submit(activate, server, requestTimeout=50_000)
        assert activate(server, type="other", requestTimeout=50) == []  # and whoever came before waits
        job = external_job("pay", database=alias)
        # Not a probe has found it; how long it takes is measured elsewhere.
        assert [each["jobKey"] for each in waiting.result(TIMEOUT)] == [str(job.job_key)]


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="there is no /proc")
@pytest.mark.databases("postgresql")
@pytest.mark.slow
def test_many_who_wait_hold_few_threads_and_connections_and_a_killed_one_takes_no_job(alias):
    middleware = [
        "django.middleware.security.SecurityMiddleware",
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.middleware.common.CommonMiddleware",
    ]
    with servers.asgi(alias, MIDDLEWARE=middleware) as server:
        assert activate(server, requestTimeout=-1) == []
        clients = [hang(server, requestTimeout=60_000) for _ in range(500)]
        # The last one to be served is served: now all wait.
        assert activate(server, type="other", requestTimeout=100) == []
        until(lambda: threads_of(server) < 40)
        assert _sessions(alias) < 15
        for client in clients[:-1]:
            client.close()
        job = external_job("pay", database=alias)
        clients[-1].settimeout(TIMEOUT)
        answer = b""
        while str(job.job_key).encode() not in answer:
            part = clients[-1].recv(65536)
            assert part, answer
            answer += part
        clients[-1].close()
        assert ExternalWorkerJob.objects.using(alias).get(pk=job.pk).attempts == 1


def _sessions(alias):
    with connections[alias].cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")
        return cursor.fetchone()[0]


def _scope(body):
    request = AsyncRequestFactory().post("/v2/jobs/activation", body, content_type="application/json")
    return request.scope, json.dumps(body).encode()


@pytest.mark.parametrize("handler_class", [ASGIHandler, GatewayHandler])
def test_a_client_that_goes_while_it_is_answered_leaves_the_job_to_others(alias, handler_class):
    """The whole of a handler, and a server that says in the middle of the answer that nobody is there."""
    job = external_job("pay", database=alias)

    async def story():
        scope, body = _scope(ASKED)
        gone = asyncio.Event()
        messages = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive():
            if messages:
                return messages.pop()
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message):
            if message["type"] == "http.response.body":
                gone.set()
                await asyncio.sleep(TIMEOUT)  # until it is cancelled

        handler = handler_class()
        handler.load_middleware(is_async=True)
        await handler(scope, receive, send)

    asyncio.run(story())
    until(lambda: ExternalWorkerJob.objects.using(alias).get(pk=job.pk).lock_owner is None)


def slow_middleware(get_response):
    """The answer is there, and is not sent for a while."""

    async def middleware(request):
        response = await get_response(request)
        request.scope["jobexec.answer"] = weakref.ref(response)
        request.scope["jobexec.answered"].set()
        await asyncio.sleep(TIMEOUT)  # until it is cancelled
        return response

    return middleware


slow_middleware = async_only_middleware(slow_middleware)


def test_a_client_that_goes_before_it_is_answered_leaves_the_job_to_others(alias, settings, monkeypatch):
    """What has activated the job is over at once, and not when Python next looks for cycles."""
    settings.MIDDLEWARE = [
        "django.middleware.security.SecurityMiddleware",
        f"{__name__}.slow_middleware",
        "django.middleware.common.CommonMiddleware",
    ]
    job = external_job("pay", database=alias)

    async def story():
        scope, body = _scope(ASKED)
        scope["jobexec.answered"] = answered = asyncio.Event()
        messages = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive():
            if messages:
                return messages.pop()
            await answered.wait()
            return {"type": "http.disconnect"}

        async def send(message):
            pytest.fail("nobody is there")

        handler = ASGIHandler()
        handler.load_middleware(is_async=True)
        await handler(scope, receive, send)
        while scope["jobexec.answer"]() is not None:
            await asyncio.sleep(0.01)

    monkeypatch.setattr(waiting_room, "_COLLECT", 0.01)
    gc.disable()
    try:
        asyncio.run(asyncio.wait_for(story(), TIMEOUT))
        until(lambda: ExternalWorkerJob.objects.using(alias).get(pk=job.pk).lock_owner is None)
    finally:
        gc.enable()
