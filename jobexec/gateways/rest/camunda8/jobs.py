"""A worker's reports about a job (completion, failure, error), and changes to a job."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.http import HttpRequest, HttpResponse

from jobexec.gateways.auth import REPORTS, RESULTS, audit, client_of, limit
from jobexec.gateways.rest.common import caller_of, database, nothing
from jobexec.operations.external import (
    complete_external_job,
    extend_external_deadline,
    fail_external_job,
    set_external_priority,
    set_external_retries,
    throw_external_error,
)

from .body import Body, read
from .endpoint import endpoint, key_in
from .problems import INVALID_ARGUMENT, Refused

_INT32 = 2**31 - 1


# A worker's reports about its jobs have separate allowances: if a report were refused, the job would run twice.


@endpoint("work", counts=RESULTS)
def completion(request: HttpRequest, job_key: str) -> HttpResponse:
    """POST /jobs/{jobKey}/completion."""
    body = read(request)
    complete_external_job(
        database(), key_in("jobKey", job_key), body.mapping("variables"), lease=_lease(body), caller=caller_of(request)
    )
    return nothing()


@endpoint("work", counts=REPORTS)
def failure(request: HttpRequest, job_key: str) -> HttpResponse:
    """POST /jobs/{jobKey}/failure. Without retries, or with 0, it opens an incident. Variables stay with the job."""
    body = read(request)
    fail_external_job(
        database(),
        key_in("jobKey", job_key),
        retries=body.retries("retries", 0),
        message=body.text("errorMessage", ""),
        back_off=body.milliseconds("retryBackOff", None) or timedelta(0),
        local_variables=body.mapping("variables"),
        lease=_lease(body),
        caller=caller_of(request),
    )
    return nothing()


@endpoint("work", counts=RESULTS)
def error(request: HttpRequest, job_key: str) -> HttpResponse:
    """POST /jobs/{jobKey}/error. If nothing catches the error, the call still succeeds, and opens an incident."""
    body = read(request)
    throw_external_error(
        database(),
        key_in("jobKey", job_key),
        code=body.text("errorCode", blank=False),
        message=body.text("errorMessage", ""),
        variables=body.mapping("variables"),
        lease=_lease(body),
        caller=caller_of(request),
    )
    return nothing()


@endpoint("work", "update", counts=REPORTS)
def update(request: HttpRequest, job_key: str) -> HttpResponse:
    """PATCH /jobs/{jobKey}: apply all changes or none.

    A worker may change the deadline of a job that it holds; the other changes need the permission "update".
    """
    body = read(request)
    changes = body.part("changeset", required=True)
    operates = changes.has("retries") or changes.has("priority")
    if operates:
        client_of(request).check("update")
        limit(client_of(request))
    options: dict[str, Any] = {"lease": _lease(body), "caller": caller_of(request)}
    key = key_in("jobKey", job_key)
    verbs = list(_changes(changes))
    if not verbs:
        raise Refused(INVALID_ARGUMENT, "changeset: expected at least one of retries, timeout and priority, got none.")
    with transaction.atomic(using=database()):
        for verb, value in verbs:
            verb(database(), key, value, **options)
    if operates:
        audit(client_of(request), str(request.method), request.path)
    return nothing()


def _changes(changes: Body) -> list[tuple[Callable[..., None], Any]]:
    found: list[tuple[Callable[..., None], Any]] = []
    if changes.has("retries"):
        found.append((set_external_retries, changes.integer("retries", least=1, most=_INT32)))
    if changes.has("timeout"):
        found.append((extend_external_deadline, changes.milliseconds("timeout")))
    if changes.has("priority"):
        found.append((set_external_priority, changes.integer("priority", least=-_INT32 - 1, most=_INT32)))
    return found


def _lease(body: Body) -> str | None:
    token: str | None = body.text("jobLeaseToken", None)
    return token
