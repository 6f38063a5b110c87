"""POST /jobs/activation: a long poll for jobs."""

from __future__ import annotations

import json
from collections.abc import Sequence
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

from .body import Body, read
from .endpoint import guarded
from .problems import invalid
from .shown import activated_job

PROTOCOL = "rest"
_MOST_JOBS = 2**31 - 1
#: A client that wants to wait longer polls again, which shows that it is still there; under WSGI nothing else does.
_LONGEST_WAIT = timedelta(minutes=10)


@guarded("work")
async def activation(request: HttpRequest) -> HttpResponseBase:
    """Return the activated jobs; an empty list if there are none within the time that the request may wait."""
    body, caller = read(request), caller_of(request)
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
        _activated(fetch, jobs)
        return JsonResponse(_body(jobs), json_dumps_params={"ensure_ascii": False})
    await release_thread()
    jobs = await long_polling.poll(database(), fetch, wait, **who)
    if not jobs:
        return JsonResponse(_body(jobs))
    _activated(fetch, jobs)
    content = json.dumps(_body(jobs), cls=DjangoJSONEncoder, ensure_ascii=False).encode()
    return TrackedResponse(content, partial(long_polling.give_back, database(), jobs), content_type="application/json")


def _body(jobs: Sequence[ActivatedJob]) -> dict[str, object]:
    return {"jobs": [activated_job(job) for job in jobs]}


def _activated(fetch: Fetch, jobs: Sequence[ActivatedJob]) -> None:
    if jobs:
        worker_registry.activated(fetch.type, fetch.worker, len(jobs), protocol=PROTOCOL, client=fetch.caller.name)


def fetch_of(body: Body, caller: Caller) -> Fetch:
    """Build the fetch for a request body. Raises Refused."""
    names = body.texts("fetchVariable")
    return Fetch(
        type=body.text("type", blank=False),
        worker=body.text("worker", ""),
        timeout=body.milliseconds("timeout", least=1),
        max_jobs=body.integer("maxJobsToActivate", least=1, most=_MOST_JOBS),
        variables=names or None,
        tenants=_tenants(body),
        with_lease=body.flag("withLease"),
        caller=caller,
    )


def _tenants(body: Body) -> list[str] | None:
    """The named tenants (tenantFilter PROVIDED); None for all of the caller's tenants (ASSIGNED)."""
    chosen = body.text("tenantFilter", "PROVIDED")
    if chosen not in ("PROVIDED", "ASSIGNED"):
        raise invalid("tenantFilter", "PROVIDED or ASSIGNED", chosen)
    named = [zeebe_format.tenant_id(tenant) for tenant in body.texts("tenantIds")]
    return named if named and chosen == "PROVIDED" else None


def wait_of(body: Body) -> timedelta:
    """How long a request may wait: 0 or missing means the server's default, a negative value not at all."""
    milliseconds = body.integer("requestTimeout", 0)
    if milliseconds < 0:
        return timedelta(0)
    return min(body.milliseconds("requestTimeout", None) or get_settings().gateway_long_poll_time, _LONGEST_WAIT)
