"""A worker's reports about a job (completion, failure, error), and changes to a job."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.http import HttpRequest, HttpResponse

from jobexec.gateways.auth import REPORTS, RESULTS, audit, client_of, limit
from jobexec.gateways.rest.common import caller_of, complete, database, nothing
from jobexec.operations.audit import outlasting
from jobexec.operations.external import (
    extend_external_deadline,
    fail_external_job,
    set_external_priority,
    set_external_retries,
    throw_external_error,
)
from jobexec.operations.external.types import Completion

from .contract import Request, optional, required
from .endpoint import Operation, async_endpoint, endpoint
from .problems import INVALID_ARGUMENT, Refused
from .values import ANYTHING, INT32, NOT_BLANK, NUMBER, OBJECT, TEXT, ignored, integer, milliseconds

_LEASE = {"jobLeaseToken": optional(TEXT, about="The token from the activation, if the job was leased.")}
_COMPLETION = Request("JobCompletionRequest", variables=optional(OBJECT), result=optional(ignored(ANYTHING)), **_LEASE)
_FAILURE = Request(
    "JobFailRequest",
    retries=optional(integer(-INT32, INT32), 0, "Retries left; 0 opens an incident. Default: 0."),
    errorMessage=optional(TEXT, ""),
    retryBackOff=optional(milliseconds(), timedelta(0), "Milliseconds until the job may be fetched again."),
    variables=optional(OBJECT, about="Only for workers that fetch the job later."),
    **_LEASE,
)
_ERROR = Request(
    "JobErrorRequest",
    errorCode=required(NOT_BLANK),
    errorMessage=optional(TEXT, ""),
    variables=optional(OBJECT),
    **_LEASE,
)
_CHANGES = Request(
    retries=optional(integer(1, INT32)),
    timeout=optional(milliseconds()),
    priority=optional(integer(-INT32 - 1, INT32)),
)
_UPDATE = Request(
    "JobUpdateRequest",
    changeset=required(_CHANGES.part(), "At least one that is not null."),
    operationReference=optional(ignored(NUMBER)),
    **_LEASE,
)
_NOT_POSSIBLE = (404, 409)


# A worker's reports about its jobs have separate allowances: if a report were refused, the job would run twice.


@async_endpoint(
    "work",
    counts=RESULTS,
    operation=Operation("completeJob", "Complete a job", _COMPLETION, problems=_NOT_POSSIBLE),
)
async def completion(request: HttpRequest, body: Mapping[str, Any], job_key: int) -> HttpResponse:
    """POST /jobs/{jobKey}/completion."""
    caller = caller_of(request)
    await complete(request, Completion(job_key, body["variables"], lease=body["jobLeaseToken"], caller=caller))
    return nothing()


@endpoint("work", counts=REPORTS, operation=Operation("failJob", "Fail a job", _FAILURE, problems=_NOT_POSSIBLE))
def failure(request: HttpRequest, body: Mapping[str, Any], job_key: int) -> HttpResponse:
    """POST /jobs/{jobKey}/failure. Without retries, or with 0, it opens an incident. Variables stay with the job."""
    fail_external_job(
        database(),
        job_key,
        retries=body["retries"],
        message=body["errorMessage"],
        back_off=body["retryBackOff"],
        local_variables=body["variables"],
        lease=body["jobLeaseToken"],
        caller=caller_of(request),
    )
    return nothing()


@endpoint(
    "work",
    counts=RESULTS,
    operation=Operation("throwJobError", "End a job with an error", _ERROR, problems=_NOT_POSSIBLE),
)
def error(request: HttpRequest, body: Mapping[str, Any], job_key: int) -> HttpResponse:
    """POST /jobs/{jobKey}/error. If nothing catches the error, the call still succeeds, and opens an incident."""
    throw_external_error(
        database(),
        job_key,
        code=body["errorCode"],
        message=body["errorMessage"],
        variables=body["variables"],
        lease=body["jobLeaseToken"],
        caller=caller_of(request),
    )
    return nothing()


_VERBS: Mapping[str, Callable[..., None]] = {
    "retries": set_external_retries,
    "timeout": extend_external_deadline,
    "priority": set_external_priority,
}


@endpoint(
    "work",
    "update",
    counts=REPORTS,
    operation=Operation("updateJob", "Change a job", _UPDATE, problems=_NOT_POSSIBLE),
)
def update(request: HttpRequest, body: Mapping[str, Any], job_key: int) -> HttpResponse:
    """PATCH /jobs/{jobKey}: apply all changes or none.

    A worker may change the deadline of a job that it holds; the other changes need the permission "update".
    """
    changes = {name: value for name, value in body["changeset"].items() if value is not None}
    operates = bool(changes.keys() - {"timeout"})
    if operates:
        client_of(request).check("update")
        limit(client_of(request))
    if not changes:
        raise Refused(INVALID_ARGUMENT, "changeset: expected at least one of retries, timeout and priority, got none.")
    with outlasting(), transaction.atomic(using=database()):
        for name, value in changes.items():
            _VERBS[name](database(), job_key, value, lease=body["jobLeaseToken"], caller=caller_of(request))
    if operates:
        audit(client_of(request), str(request.method), request.path)
    return nothing()
