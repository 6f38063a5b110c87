"""POST /jobs/search and /incidents/search."""

from __future__ import annotations

from collections.abc import Collection, Sequence
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

from . import shown
from .body import read
from .endpoint import endpoint
from .filters import FLAG, KEY, NUMBER, TEXT, TIME, Member, columns_of, filter_of, order_of, page_of

Row: TypeAlias = dict[str, Any]

#: The members of JobFilter.
JOB_MEMBERS = {
    "creationTime": Member(TIME, needs=("create_time",)),
    "deadline": Member(TIME, needs=("lock_expiration_time",)),
    "deniedReason": Member(TEXT),
    "elementId": Member(TEXT, needs=("element_id", "handler_type")),
    "elementInstanceKey": Member(KEY, needs=("execution_id",)),
    "endTime": Member(TIME),
    "errorCode": Member(TEXT),
    "errorMessage": Member(TEXT, "exception_message"),
    "hasFailedWithRetriesLeft": Member(FLAG, needs=("failures", "retries")),
    "isDenied": Member(FLAG),
    "jobKey": Member(KEY, "job_key"),
    "kind": Member(TEXT),
    "lastUpdateTime": Member(TIME),
    "listenerEventType": Member(TEXT),
    "priority": Member(NUMBER, "priority"),
    "processDefinitionId": Member(TEXT, needs=("process_definition_key",)),
    "processDefinitionKey": Member(KEY, needs=("process_definition_id",)),
    "processInstanceKey": Member(KEY, needs=("process_instance_id",)),
    "retries": Member(NUMBER, "retries"),
    "state": Member(TEXT, needs=("failures", "lock_expiration_time", "thrown")),
    "tenantId": Member(TEXT, needs=("tenant_id",)),
    "type": Member(TEXT, "handler_type"),
    "worker": Member(TEXT, needs=("lock_owner",)),
}

#: The members of IncidentFilter.
INCIDENT_MEMBERS = {
    "creationTime": Member(TIME, needs=("timestamp",)),
    "elementId": Member(TEXT, needs=("handler_type",)),
    "elementInstanceKey": Member(KEY),
    "errorMessage": Member(TEXT, "message"),
    "errorType": Member(TEXT, needs=("type",)),
    "incidentKey": Member(KEY, "incident_key"),
    "jobKey": Member(KEY, needs=("job_id",)),
    "processDefinitionId": Member(TEXT, needs=("process_definition_key",)),
    "processDefinitionKey": Member(KEY),
    "processInstanceKey": Member(KEY, needs=("process_instance_id",)),
    "state": Member(TEXT, needs=("state",)),
    "tenantId": Member(TEXT, needs=("tenant_id",)),
}


# A search reads only the columns that it filters and sorts by; the rows of the returned page are read in full.


@endpoint("search")
def jobs(request: HttpRequest) -> HttpResponse:
    """POST /jobs/search: jobs that have not ended."""
    body, caller = read(request), caller_of(request)
    asked, order = filter_of(body, JOB_MEMBERS), order_of(body, JOB_MEMBERS)
    names = {"jobKey"} | asked.names | order.names
    looked_at, rows = 0, list[Row]()
    for found in search_external_jobs(database(), asked.where, columns_of(JOB_MEMBERS, names), caller):
        looked_at += 1
        row = shown.found_job(found, names)
        if asked.matches(row):
            rows.append(row)
    rows.sort(key=lambda row: int(row["jobKey"]))
    order.sort(rows)

    def complete(part: Sequence[Row]) -> list[Row]:
        keys = [int(row["jobKey"]) for row in part]
        whole = external_jobs_by_key(database(), keys, caller)
        return [shown.found_job(whole[key]) for key in keys if key in whole]

    return json_answer(page_of(body, rows, looked_at >= MOST, complete))


@endpoint("search")
def incidents(request: HttpRequest) -> HttpResponse:
    """POST /incidents/search: the newest incidents, both open ones and closed ones that are still kept."""
    body, caller = read(request), caller_of(request)
    asked, order = filter_of(body, INCIDENT_MEMBERS), order_of(body, INCIDENT_MEMBERS)
    names = {"incidentKey"} | asked.names | order.names
    found = search_incidents(database(), asked.where, caller).order_by("-incident_key")
    loaded = list(found.only("incident_key", *columns_of(INCIDENT_MEMBERS, names))[:MOST])
    rows = [row for row in _incidents(loaded, names) if asked.matches(row)]
    order.sort(rows)

    def complete(part: Sequence[Row]) -> list[Row]:
        keys = [int(row["incidentKey"]) for row in part]
        rows = search_incidents(database(), Q(incident_key__in=keys), caller)
        whole = {int(row["incidentKey"]): row for row in _incidents(list(rows))}
        return [whole[key] for key in keys if key in whole]

    return json_answer(page_of(body, rows, len(loaded) >= MOST, complete))


def _incidents(found: Sequence[Incident], names: Collection[str] = shown.INCIDENT) -> list[Row]:
    keys = keys_of_jobs(database(), found) if "jobKey" in names else {}
    return [shown.incident(row, keys.get(row.job_id) if keys else None, names) for row in found]
