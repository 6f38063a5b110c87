"""GET /openapi.json: the OpenAPI document of this API."""

from __future__ import annotations

from functools import cache
from typing import Any

from django.http import HttpRequest, HttpResponse

from jobexec.gateways.auth import REPORTS
from jobexec.gateways.rest.common import json_answer
from jobexec.gateways.zeebe_format import CONTRACT

from .endpoint import endpoint
from .schemas import KEY, SCHEMAS, TEXT, TIME, ref

_PROBLEMS = {
    400: "The request is not valid; the detail names the field.",
    401: "Missing or invalid credentials.",
    403: "The client lacks the permission.",
    404: "There is no such job or incident, or the client may not see it.",
    409: "The state of the job or its lease does not allow it.",
    500: "An unexpected error.",
    503: "RESOURCE_EXHAUSTED: too many requests, try again. UNAVAILABLE: the database does not answer.",
}
_ALWAYS, _ONE = (400, 401, 403, 500, 503), (404, 409)

#: (path, method, operation, summary, request, answer, further problems)
_OPERATIONS: list[tuple[str, str, str, str, str, str, tuple[int, ...]]] = [
    ("/jobs/activation", "post", "activateJobs", "Activate jobs", "JobActivationRequest", "JobActivationResult", ()),
    ("/jobs/search", "post", "searchJobs", "Search jobs", "JobSearchQuery", "JobSearchQueryResult", ()),
    (
        "/jobs/statistics/global",
        "get",
        "getGlobalJobStatistics",
        "Global job statistics for a period",
        "",
        "GlobalJobStatisticsQueryResult",
        (),
    ),
    (
        "/jobs/statistics/by-types",
        "post",
        "getJobTypeStatistics",
        "Job statistics by type",
        "JobTypeStatisticsQuery",
        "JobTypeStatisticsQueryResult",
        (),
    ),
    (
        "/jobs/statistics/by-workers",
        "post",
        "getJobWorkerStatistics",
        "Job statistics by worker",
        "JobWorkerStatisticsQuery",
        "JobWorkerStatisticsQueryResult",
        (),
    ),
    ("/jobs/{jobKey}/completion", "post", "completeJob", "Complete a job", "JobCompletionRequest", "", _ONE),
    ("/jobs/{jobKey}/failure", "post", "failJob", "Fail a job", "JobFailRequest", "", _ONE),
    ("/jobs/{jobKey}/error", "post", "throwJobError", "End a job with an error", "JobErrorRequest", "", _ONE),
    ("/jobs/{jobKey}", "patch", "updateJob", "Change a job", "JobUpdateRequest", "", _ONE),
    (
        "/incidents/search",
        "post",
        "searchIncidents",
        "Search incidents",
        "IncidentSearchQuery",
        "IncidentSearchQueryResult",
        (),
    ),
    ("/incidents/{incidentKey}", "get", "getIncident", "Get an incident", "", "IncidentResult", (404,)),
    (
        "/incidents/{incidentKey}/resolution",
        "post",
        "resolveIncident",
        "Resolve an incident: its job may be fetched again",
        "IncidentResolutionRequest",
        "",
        _ONE,
    ),
    ("/topology", "get", "getTopology", "Get the topology", "", "TopologyResponse", ()),
    ("/status", "get", "getStatus", "Get the status", "", "", ()),
]
_QUERIES = {
    "getGlobalJobStatistics": [
        {"name": "from", "in": "query", "required": True, "schema": TIME},
        {"name": "to", "in": "query", "required": True, "schema": TIME},
        {"name": "jobType", "in": "query", "schema": TEXT},
    ]
}


@endpoint("work", counts=REPORTS)
def document(request: HttpRequest) -> HttpResponse:
    """Return the document, with the URL of the request as the server."""
    address = request.build_absolute_uri(request.path)
    return json_answer({**described(), "servers": [{"url": address.removesuffix("/openapi.json")}]})


@cache
def described() -> dict[str, Any]:
    """The document without a server."""
    paths: dict[str, dict[str, Any]] = {}
    for path, method, operation, summary, body, answer, problems in _OPERATIONS:
        paths.setdefault(path, {})[method] = _operation(path, operation, summary, body, answer, problems)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "jobexec: external workers",
            "version": CONTRACT,
            "description": "The part of Camunda 8's REST API that workers need, over the jobs of a Django project.",
        },
        "security": [{"basic": []}, {"bearer": []}],
        "paths": paths,
        "components": {
            "schemas": SCHEMAS,
            "securitySchemes": {
                "basic": {"type": "http", "scheme": "basic"},
                "bearer": {"type": "http", "scheme": "bearer"},
            },
        },
    }


def _operation(
    path: str, operation: str, summary: str, body: str, answer: str, problems: tuple[int, ...]
) -> dict[str, Any]:
    answers: dict[str, Any] = {"200": _json("The result.", answer)} if answer else {"204": _NOTHING}
    for status in sorted((*_ALWAYS, *problems)):
        answers[str(status)] = _json(_PROBLEMS[status], "ProblemDetail", "application/problem+json")
    found: dict[str, Any] = {"operationId": operation, "summary": summary, "responses": answers}
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": KEY}
        for name in ("jobKey", "incidentKey")
        if f"{{{name}}}" in path
    ] + _QUERIES.get(operation, [])
    if parameters:
        found["parameters"] = parameters
    if body:
        found["requestBody"] = {
            "required": bool(SCHEMAS[body].get("required")),
            "content": {"application/json": {"schema": ref(body)}},
        }
    return found


_NOTHING = {"description": "Done."}


def _json(description: str, schema: str, type: str = "application/json") -> dict[str, Any]:
    return {"description": description, "content": {type: {"schema": ref(schema)}}}
