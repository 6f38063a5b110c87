"""Convert request messages to values. Invalid fields raise BadRequest with the name of the field."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from jobexec.exceptions import NotAllowed
from jobexec.gateways import zeebe_format
from jobexec.gateways.asks import MOST_VALUES
from jobexec.operations.external.types import Caller, Fetch
from jobexec.operations.external.validation import checked_name

from . import gateway_pb2 as pb
from .codes import BadRequest

_MOST_TENANT = 64  # characters
#: The maximum number of jobs per request; a client that asks for more gets the rest with its next request.
MOST_JOBS = 1000
_LONGEST = 366 * 24 * 3600 * 1000  # milliseconds


def fetch_of_poll(request: pb.ActivateJobsRequest, caller: Caller) -> Fetch:
    """The fetch for an ActivateJobs call. Raises NotAllowed for a type or a tenant that the caller may not access."""
    if request.maxJobsToActivate < 1:
        raise BadRequest(f"maxJobsToActivate: expected at least 1, got {request.maxJobsToActivate}.")
    return _fetch(request, caller, min(request.maxJobsToActivate, MOST_JOBS), request.withLease)


def fetch_of_stream(request: pb.StreamActivatedJobsRequest, caller: Caller) -> Fetch:
    """The fetch for a StreamActivatedJobs call; the gateway decides how many jobs it fetches at a time."""
    return _fetch(request, caller, 1, False)


def _fetch(
    request: pb.ActivateJobsRequest | pb.StreamActivatedJobsRequest, caller: Caller, most: int, lease: bool
) -> Fetch:
    if not request.type.strip():
        raise BadRequest("type: expected the type of the jobs, got a blank string.")
    for field in ("fetchVariable", "tenantIds"):
        if len(values := getattr(request, field)) > MOST_VALUES:
            raise BadRequest(f"{field}: expected at most {MOST_VALUES:,} values, got {len(values):,}.")
    checked_name("type", request.type)
    checked_name("worker", request.worker)
    if any("\0" in tenant for tenant in request.tenantIds):
        raise BadRequest("tenantIds: expected strings without U+0000.")
    if not caller.may_fetch(request.type):
        raise NotAllowed(f"The client {caller.name!r} may not fetch jobs of type {request.type!r}.")
    return Fetch(
        type=request.type,
        worker=request.worker,
        timeout=milliseconds(request.timeout, "timeout", least=1),
        max_jobs=most,
        variables=frozenset(request.fetchVariable) or None,
        tenants=tenants(request.tenantIds, caller),
        with_lease=lease,
        caller=caller,
    )


def tenants(ids: Iterable[str], caller: Caller) -> frozenset[str] | None:
    """The tenants whose jobs are requested; None for all that the caller may see."""
    wanted = frozenset(zeebe_format.tenant_id(each) for each in ids)
    for tenant in wanted:
        if len(tenant) > _MOST_TENANT:
            raise BadRequest(f"tenantIds: expected at most {_MOST_TENANT} characters, got {len(tenant)}.")
        if not caller.may_see(tenant):
            raise NotAllowed(
                f"The client {caller.name!r} may not fetch jobs of tenant {zeebe_format.tenant(tenant)!r}."
            )
    return wanted or None


def milliseconds(number: int, field: str, least: int = 0) -> timedelta:
    """Convert to a duration, capped at a year."""
    if number < least:
        raise BadRequest(f"{field}: expected at least {least} milliseconds, got {number}.")
    return timedelta(milliseconds=min(number, _LONGEST))


def variables(text: str) -> dict[str, Any] | None:
    """The variables that a worker sends, parsed from the text of a JSON object; None for an empty text or null."""
    if not text.strip():
        return None
    try:
        value = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"variables: expected the text of a JSON object: {error}.") from error
    if value is not None and not isinstance(value, dict):
        raise BadRequest(f"variables: expected a JSON object at the root, got {type(value).__name__}.")
    return value


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def lease(request: Any) -> str | None:
    """The lease token of the request, if it has one."""
    return str(request.jobLeaseToken) if request.HasField("jobLeaseToken") else None
