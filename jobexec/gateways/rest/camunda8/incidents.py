"""Show and resolve a single incident."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db.models import Q
from django.http import HttpRequest, HttpResponse

from jobexec.exceptions import IncidentNotFound
from jobexec.gateways.rest.common import caller_of, database, json_answer, nothing
from jobexec.operations.external import resolve_external_incident
from jobexec.operations.external.search import keys_of_jobs, search_incidents

from .contract import Request, optional
from .endpoint import Operation, endpoint
from .shown import INCIDENT, with_instance_keys
from .values import NUMBER, ignored

_RESOLUTION = Request("IncidentResolutionRequest", operationReference=optional(ignored(NUMBER)))


@endpoint("search", operation=Operation("getIncident", "Get an incident", gives=INCIDENT, problems=(404,)))
def show(request: HttpRequest, incident_key: int) -> HttpResponse:
    """GET /incidents/{incidentKey}."""
    found = None
    if 0 < incident_key < 2**63:
        found = search_incidents(database(), Q(incident_key=incident_key), caller_of(request)).first()
    if found is None:
        raise IncidentNotFound(f"There is no incident with key '{incident_key}'.")
    with_instance_keys(database(), [found])
    return json_answer(INCIDENT.of(found, keys_of_jobs(database(), [found]).get(found.job_id)))


@endpoint(
    "resolve",
    operation=Operation(
        "resolveIncident", "Resolve an incident: its job may be fetched again", _RESOLUTION, problems=(404, 409)
    ),
)
def resolution(request: HttpRequest, body: Mapping[str, Any], incident_key: int) -> HttpResponse:
    """POST /incidents/{incidentKey}/resolution. The job must have retries again before the call."""
    resolve_external_incident(database(), incident_key, caller=caller_of(request))
    return nothing()
