"""GET /openapi.json: the OpenAPI document of this API, made of what its views declare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern

from jobexec.gateways.auth import REPORTS
from jobexec.gateways.rest.common import AsyncView, json_answer
from jobexec.gateways.zeebe_format import CONTRACT

from .contract import SCHEMAS, ref, response_schema
from .endpoint import Operation, endpoint, member_name
from .values import KEY, NUMBER, TEXT

_PROBLEM = "ProblemDetail"
SCHEMAS[_PROBLEM] = response_schema(
    {"type": TEXT.schema, "title": TEXT.schema, "status": NUMBER.schema, "detail": TEXT.schema, "instance": TEXT.schema}
)
_PROBLEMS = {
    400: "The request is not valid; the detail names the field.",
    401: "Missing or invalid credentials.",
    403: "The client lacks the permission.",
    404: "No object has this key or name, or the client may not see it.",
    409: "The state of the job or its lease does not allow it.",
    500: "An unexpected error.",
    502: "ABORTED: the connection to the database was lost; it is unknown whether this has happened.",
    504: "DEADLINE_EXCEEDED: what the client waits for has not happened in time; the server continues.",
    503: "RESOURCE_EXHAUSTED: too many requests, try again. UNAVAILABLE: the database does not answer.",
}
_ALWAYS = (400, 401, 403, 500, 503)


def document(calls: Sequence[URLPattern]) -> AsyncView:
    """A view that returns the document of these calls, with the URL of the request as the server."""

    @endpoint("work", counts=REPORTS, operation=Operation("getOpenAPI", "Get this document"))
    def view(request: HttpRequest) -> HttpResponse:
        address = request.build_absolute_uri(request.path)
        return json_answer({**document_of(calls), "servers": [{"url": address.removesuffix("/openapi.json")}]})

    return view


def document_of(calls: Sequence[URLPattern]) -> dict[str, Any]:
    """The document without a server."""
    paths = {}
    for call in calls:
        path, keys = "/" + str(call.pattern), []
        for argument in call.pattern.converters:
            keys.append(member_name(argument))
            path = path.replace(f"<str:{argument}>", f"{{{keys[-1]}}}")
        views: Mapping[str, Any] = call.callback.views  # type: ignore[attr-defined]
        paths[path] = {method.lower(): _operation(view.operation, keys) for method, view in views.items()}
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


def _operation(operation: Operation, keys: Sequence[str]) -> dict[str, Any]:
    answers: dict[str, Any] = {"204": {"description": "Done."}}
    if operation.gives is not None:
        answers = {"200": _json("The result.", operation.gives.name)}
    for status in sorted((*_ALWAYS, *operation.problems)):
        answers[str(status)] = _json(_PROBLEMS[status], _PROBLEM, "application/problem+json")
    found: dict[str, Any] = {"operationId": operation.name, "summary": operation.summary, "responses": answers}
    parameters = [{"name": key, "in": "path", "required": True, "schema": KEY.schema} for key in keys]
    for name, member in operation.query.members.items() if operation.query else ():
        parameters.append({"name": name, "in": "query", "required": member.is_required, "schema": member.kind.schema})
    if parameters:
        found["parameters"] = parameters
    if operation.takes is not None:
        found["requestBody"] = {
            "required": bool(operation.takes.required),
            "content": {"application/json": {"schema": ref(operation.takes.name)}},
        }
    return found


def _json(description: str, schema: str, type: str = "application/json") -> dict[str, Any]:
    return {"description": description, "content": {type: {"schema": ref(schema)}}}
