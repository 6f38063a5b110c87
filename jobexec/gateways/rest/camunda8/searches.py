"""POST /jobs/search and /incidents/search."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeAlias

from django.db.models import Q
from django.http import HttpRequest, HttpResponse

from jobexec.gateways.rest.common import caller_of, database, json_answer
from jobexec.models import Incident
from jobexec.operations.external.search import (
    MOST,
    external_jobs_by_key,
    keys_of_jobs,
    search_external_jobs,
    search_incidents,
)

from .contract import Pages
from .endpoint import Operation, endpoint
from .filters import columns_of, search_request
from .shown import INCIDENT, JOB, with_instance_keys

Row: TypeAlias = dict[str, Any]

JOBS = Pages("JobSearchQueryResult", JOB)
INCIDENTS = Pages("IncidentSearchQueryResult", INCIDENT)


# A search reads only the columns that it filters and sorts by; the rows of the returned page are read in full.


@endpoint("search", operation=Operation("searchJobs", "Search jobs", search_request("JobSearchQuery", JOB), JOBS))
def jobs(request: HttpRequest, body: Mapping[str, Any]) -> HttpResponse:
    """POST /jobs/search: jobs that have not ended."""
    asked, order, caller = body["filter"], body["sort"], caller_of(request)
    names = {"jobKey"} | asked.names | order.names
    looked_at, rows = 0, list[Row]()
    for found in search_external_jobs(database(), asked.where, columns_of(JOB.members, names), caller):
        looked_at += 1
        row = JOB.only(names, found)
        if asked.matches(row):
            rows.append(row)
    rows.sort(key=lambda row: int(row["jobKey"]))
    order.sort(rows)

    def complete(part: Sequence[Row]) -> list[Row]:
        keys = [int(row["jobKey"]) for row in part]
        whole = external_jobs_by_key(database(), keys, caller)
        return [JOB.of(whole[key]) for key in keys if key in whole]

    return json_answer(JOBS.of(body["page"], rows, looked_at >= MOST, complete))


@endpoint(
    "search",
    operation=Operation(
        "searchIncidents", "Search incidents", search_request("IncidentSearchQuery", INCIDENT), INCIDENTS
    ),
)
def incidents(request: HttpRequest, body: Mapping[str, Any]) -> HttpResponse:
    """POST /incidents/search: the newest incidents, both open ones and closed ones that are still kept."""
    asked, order, caller = body["filter"], body["sort"], caller_of(request)
    names = {"incidentKey"} | asked.names | order.names
    found = search_incidents(database(), asked.where, caller).order_by("-incident_key")
    loaded = list(found.only("incident_key", *columns_of(INCIDENT.members, names))[:MOST])
    rows = [row for row in _incidents(loaded, names) if asked.matches(row)]
    order.sort(rows)

    def complete(part: Sequence[Row]) -> list[Row]:
        keys = [int(row["incidentKey"]) for row in part]
        rows = search_incidents(database(), Q(incident_key__in=keys), caller)
        whole = {int(row["incidentKey"]): row for row in _incidents(list(rows))}
        return [whole[key] for key in keys if key in whole]

    return json_answer(INCIDENTS.of(body["page"], rows, len(loaded) >= MOST, complete))


def _incidents(found: Sequence[Incident], names: Collection[str] = tuple(INCIDENT.members)) -> list[Row]:
    keys = keys_of_jobs(database(), found) if "jobKey" in names else {}
    if "processInstanceKey" in names:
        with_instance_keys(database(), found)
    return [INCIDENT.only(names, row, keys.get(row.job_id) if keys else None) for row in found]
