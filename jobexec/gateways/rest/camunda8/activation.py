"""POST /jobs/activation: a long poll for jobs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.core.serializers.json import DjangoJSONEncoder
from django.http import HttpRequest, HttpResponseBase, JsonResponse

from jobexec.conf import get_settings
from jobexec.gateways import asks, auth, long_polling, worker_registry, zeebe_format
from jobexec.gateways.rest.common import caller_of, database
from jobexec.gateways.rest.waiting_room import TrackedResponse, release_thread
from jobexec.operations.external.types import ActivatedJob, Caller, Fetch

from .contract import Request, Response, optional, required
from .endpoint import Operation, async_endpoint
from .shown import ACTIVATED_JOB
from .values import FLAG, INT32, NOT_BLANK, TEXT, TEXTS, choice, integer, milliseconds

PROTOCOL = "rest"
#: A client that wants to wait longer polls again, which shows that it is still there; under WSGI nothing else does.
_LONGEST_WAIT = timedelta(minutes=10)


ACTIVATION = Request(
    "JobActivationRequest",
    type=required(NOT_BLANK),
    worker=optional(TEXT, ""),
    timeout=required(milliseconds(least=1), "Milliseconds for which the jobs are locked; at least 1."),
    maxJobsToActivate=required(integer(1, INT32)),
    fetchVariable=optional(TEXTS, (), "The names of the requested variables; an empty list for all."),
    requestTimeout=optional(integer(), 0, "Milliseconds to wait: 0 for the server's default, negative for no wait."),
    tenantIds=optional(TEXTS, ()),
    tenantFilter=optional(choice(("PROVIDED", "ASSIGNED"), "PROVIDED or ASSIGNED"), "PROVIDED"),
    withLease=optional(FLAG, False),
)
_ACTIVATED = Response("JobActivationResult", jobs=ACTIVATED_JOB.several(lambda jobs: jobs))


@async_endpoint("work", operation=Operation("activateJobs", "Activate jobs", ACTIVATION, _ACTIVATED))
async def activation(request: HttpRequest, body: Mapping[str, Any]) -> HttpResponseBase:
    """Return the activated jobs; an empty list if there are none within the time that the request may wait."""
    caller = caller_of(request)
    fetch, wait = fetch_of(body, caller), wait_of(body)
    asks.check(fetch)
    of_one = (PROTOCOL, caller.name, fetch.worker, fetch.type, tuple(fetch.tenants or ()))
    worker_registry.polled(*of_one)
    if wait <= timedelta(0):
        return await _answer(request, fetch, wait)
    with worker_registry.waiting(*of_one):
        return await _answer(request, fetch, wait)


async def _answer(request: HttpRequest, fetch: Fetch, wait: timedelta) -> HttpResponseBase:
    who: dict[str, Any] = {"allowed": partial(auth.is_still_let_in, request), "client": auth.client_of(request).key}
    if not isinstance(request, ASGIRequest):
        # In the request's thread. A server has few threads, so the hub lets only some of them wait.
        jobs = await sync_to_async(long_polling.poll_in_thread)(database(), fetch, wait, **who)
        with long_polling.answering(database(), jobs):
            _activated(fetch, jobs)
            return JsonResponse(_ACTIVATED.of(jobs), json_dumps_params={"ensure_ascii": False})
    await release_thread()
    jobs = await long_polling.poll(database(), fetch, wait, **who)
    if not jobs:
        return JsonResponse(_ACTIVATED.of(jobs))
    with long_polling.answering(database(), jobs):
        _activated(fetch, jobs)
        content = json.dumps(_ACTIVATED.of(jobs), cls=DjangoJSONEncoder, ensure_ascii=False).encode()
    return TrackedResponse(content, partial(long_polling.give_back, database(), jobs), content_type="application/json")


def _activated(fetch: Fetch, jobs: Sequence[ActivatedJob]) -> None:
    if jobs:
        worker_registry.activated(fetch.type, fetch.worker, len(jobs), protocol=PROTOCOL, client=fetch.caller.name)


def fetch_of(body: Mapping[str, Any], caller: Caller) -> Fetch:
    """Build the fetch for a request."""
    named = [zeebe_format.tenant_id(tenant) for tenant in body["tenantIds"]]
    return Fetch(
        type=body["type"],
        worker=body["worker"],
        timeout=body["timeout"],
        max_jobs=body["maxJobsToActivate"],
        variables=body["fetchVariable"] or None,
        # None for all of the caller's tenants.
        tenants=named if named and body["tenantFilter"] == "PROVIDED" else None,
        with_lease=body["withLease"],
        caller=caller,
    )


def wait_of(body: Mapping[str, Any]) -> timedelta:
    """How long a request may wait: 0 or missing means the server's default, a negative value not at all."""
    wait = body["requestTimeout"]
    if wait == 0:
        return min(get_settings().gateway_long_poll_time, _LONGEST_WAIT)
    return timedelta(milliseconds=max(0, min(wait, _LONGEST_WAIT // timedelta(milliseconds=1))))
