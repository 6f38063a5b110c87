"""POST /jobs/search and /incidents/search."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse

from jobexec.gateways.rest.common import caller_of, database
from jobexec.operations.external_search import (
    MOST,
    keys_of_jobs,
    search_external_jobs,
    search_incidents,
)

from . import shown
from .body import read
from .endpoint import endpoint, json_answer
from .filters import FLAG, KEY, NUMBER, TEXT, TIME, Member, filter_of, order_of, page_of

#: The members of JobFilter.
JOB_MEMBERS = {
    "creationTime": Member(TIME),
    "deadline": Member(TIME),
    "deniedReason": Member(TEXT),
    "elementId": Member(TEXT),
    "elementInstanceKey": Member(KEY),
    "endTime": Member(TIME),
    "errorCode": Member(TEXT),
    "errorMessage": Member(TEXT, "exception_message"),
    "hasFailedWithRetriesLeft": Member(FLAG),
    "isDenied": Member(FLAG),
    "jobKey": Member(KEY, "job_key"),
    "kind": Member(TEXT),
    "lastUpdateTime": Member(TIME),
    "listenerEventType": Member(TEXT),
    "priority": Member(NUMBER, "priority"),
    "processDefinitionId": Member(TEXT),
    "processDefinitionKey": Member(KEY),
    "processInstanceKey": Member(KEY),
    "retries": Member(NUMBER, "retries"),
    "state": Member(TEXT),
    "tenantId": Member(TEXT),
    "type": Member(TEXT, "handler_type"),
    "worker": Member(TEXT),
}

#: The members of IncidentFilter.
INCIDENT_MEMBERS = {
    "creationTime": Member(TIME),
    "elementId": Member(TEXT),
    "elementInstanceKey": Member(KEY),
    "errorMessage": Member(TEXT, "message"),
    "errorType": Member(TEXT),
    "incidentKey": Member(KEY, "incident_key"),
    "jobKey": Member(KEY),
    "processDefinitionId": Member(TEXT),
    "processDefinitionKey": Member(KEY),
    "processInstanceKey": Member(KEY),
    "state": Member(TEXT),
    "tenantId": Member(TEXT),
}


@endpoint("search")
def jobs(request: HttpRequest) -> HttpResponse:
    """POST /jobs/search: jobs that are not over."""
    body = read(request)
    asked, sort = filter_of(body, JOB_MEMBERS), order_of(body, JOB_MEMBERS)
    found = search_external_jobs(database(), asked.where, caller_of(request))
    rows = [row for row in map(shown.found_job, found) if asked.matches(row)]
    sort(rows)
    return json_answer(page_of(body, rows, more=len(found) >= MOST))


@endpoint("search")
def incidents(request: HttpRequest) -> HttpResponse:
    """POST /incidents/search: those that are open, and those that are over and still kept; the newest."""
    body = read(request)
    asked, sort = filter_of(body, INCIDENT_MEMBERS), order_of(body, INCIDENT_MEMBERS)
    found = list(search_incidents(database(), asked.where, caller_of(request)).order_by("-incident_key")[:MOST])
    keys = keys_of_jobs(database(), found)
    rows: list[dict[str, Any]] = [shown.incident(row, keys.get(row.job_id)) for row in found]
    rows = [row for row in rows if asked.matches(row)]
    sort(rows)
    return json_answer(page_of(body, rows, more=len(found) >= MOST))
