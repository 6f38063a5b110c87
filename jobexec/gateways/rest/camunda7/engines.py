"""The list of engines and the version, which clients and tools request first."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse

from jobexec.gateways.rest.common import json_answer

from .endpoint import endpoint

#: The last minor version of Camunda 7, whose calls these are.
VERSION = "7.24.0"


@endpoint("GET")
def engines(request: HttpRequest) -> HttpResponse:
    return json_answer([{"name": "default"}])


@endpoint("GET")
def version(request: HttpRequest) -> HttpResponse:
    return json_answer({"version": VERSION})
