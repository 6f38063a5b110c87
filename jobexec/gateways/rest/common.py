"""Helpers shared by the views of both REST gateways."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse

from jobexec.gateways.auth import client_of
from jobexec.gateways.auth.client import database
from jobexec.operations.external.types import Caller

__all__ = ["caller_of", "database", "nothing"]


def caller_of(request: HttpRequest) -> Caller:
    """The client of the request, in the form that operations need."""
    return client_of(request).caller


def nothing() -> HttpResponse:
    """Return an answer without a body, status 204."""
    response = HttpResponse(status=204)
    del response["Content-Type"]
    return response
