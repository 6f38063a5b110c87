"""The actuator's views for the REST gateway. ``health`` needs no authentication and returns only UP or DOWN."""

from __future__ import annotations

from secrets import compare_digest
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from jobexec.conf import get_settings
from jobexec.gateways.auth import REPORTS, client_of, protected
from jobexec.runtime.connections import own_transactions

from . import answers
from .answers import Answer

_LINKS = ("health", "jobstreams", "prometheus")


def _said(answer: Answer) -> HttpResponse:
    return HttpResponse(answer.body, answer.content_type, answer.status)


def _of_all(request: HttpRequest) -> HttpResponse | None:
    """Refuse a client that is limited to some types or tenants, because the actuator shows all."""
    caller = client_of(request).caller
    if caller.types is None and caller.tenants is None:
        return None
    return JsonResponse({"error": "This client may see only some types or tenants."}, status=403)


@never_cache
@require_safe
@own_transactions
@protected("search", counts=REPORTS)
def index(request: HttpRequest) -> HttpResponseBase:
    """List the endpoints in Spring Boot's format."""
    base = request.build_absolute_uri(request.path.rstrip("/"))
    links: dict[str, Any] = {name: {"href": f"{base}/{name}", "templated": False} for name in _LINKS}
    return JsonResponse({"_links": links})


@never_cache
@require_safe
@own_transactions
@protected("search", counts=REPORTS)
def jobstreams(request: HttpRequest, which: str = "") -> HttpResponseBase:
    """Show the streams of all gateways."""
    return _of_all(request) or _said(answers.job_streams(which))


@never_cache
@require_safe
@own_transactions
def prometheus(request: HttpRequest) -> HttpResponseBase:
    """Show the metrics of this process to holders of METRICS_TOKEN and to clients that may search everything."""
    return _metrics(request) if _has_token(request) else _metrics_for_clients(request)


def _metrics(request: HttpRequest) -> HttpResponse:
    return _said(answers.metrics(request.headers.get("Accept", "")))


@protected("search", counts=REPORTS)
def _metrics_for_clients(request: HttpRequest) -> HttpResponse:
    return _of_all(request) or _metrics(request)


def _has_token(request: HttpRequest) -> bool:
    expected = get_settings().metrics_token
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    given = token.strip().encode()
    return expected is not None and scheme.lower() == "bearer" and compare_digest(given, expected.encode())


@never_cache
@require_safe
@own_transactions
def health(request: HttpRequest) -> HttpResponseBase:
    """Report whether the gateway's database answers."""
    return _said(answers.health())
