"""URLs of Camunda 8's REST API, version 2, for jobs, incidents and messages, and those that other apps add."""

from __future__ import annotations

from django.urls import URLPattern, path

from jobexec.gateways import added

from . import incidents, jobs, messages, openapi, searches, statistics, topology
from .activation import activation
from .endpoint import by_method

CALLS: list[URLPattern] = [
    path("jobs/activation", by_method(POST=activation)),
    path("jobs/search", by_method(POST=searches.jobs)),
    path("jobs/statistics/global", by_method(GET=statistics.of_all)),
    path("jobs/statistics/by-types", by_method(POST=statistics.by_types)),
    path("jobs/statistics/by-workers", by_method(POST=statistics.by_workers)),
    path("jobs/<str:job_key>/completion", by_method(POST=jobs.completion)),
    path("jobs/<str:job_key>/failure", by_method(POST=jobs.failure)),
    path("jobs/<str:job_key>/error", by_method(POST=jobs.error)),
    path("jobs/<str:job_key>", by_method(PATCH=jobs.update)),
    path("incidents/search", by_method(POST=searches.incidents)),
    path("incidents/<str:incident_key>", by_method(GET=incidents.show)),
    path("incidents/<str:incident_key>/resolution", by_method(POST=incidents.resolution)),
    path("messages/publication", by_method(POST=messages.publication)),
    path("topology", by_method(GET=topology.topology)),
    path("status", by_method(GET=topology.status)),
    *(call for calls in added.calls(added.CAMUNDA_8) for call in calls),
]
urlpatterns = [*CALLS, path("openapi.json", by_method(GET=openapi.document(CALLS)))]
