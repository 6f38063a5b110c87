"""Show and resolve a single incident."""

from __future__ import annotations

from django.db.models import Q
from django.http import HttpRequest, HttpResponse

from jobexec.exceptions import IncidentNotFound
from jobexec.gateways.rest.common import caller_of, database, json_answer, nothing
from jobexec.operations.external import resolve_external_incident
from jobexec.operations.external.search import keys_of_jobs, search_incidents

from . import shown
from .body import read
from .endpoint import endpoint, key_in


@endpoint("search")
def show(request: HttpRequest, incident_key: str) -> HttpResponse:
    """GET /incidents/{incidentKey}."""
    key = key_in("incidentKey", incident_key)
    found = search_incidents(database(), Q(incident_key=key), caller_of(request)).first() if 0 < key < 2**63 else None
    if found is None:
        raise IncidentNotFound(f"There is no incident with key '{key}'.")
    return json_answer(shown.incident(found, keys_of_jobs(database(), [found]).get(found.job_id)))


@endpoint("resolve")
def resolution(request: HttpRequest, incident_key: str) -> HttpResponse:
    """POST /incidents/{incidentKey}/resolution. The job must have retries again before the call."""
    read(request)
    resolve_external_incident(database(), key_in("incidentKey", incident_key), caller=caller_of(request))
    return nothing()
