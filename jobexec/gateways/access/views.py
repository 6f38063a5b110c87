"""Views that only clients may ask."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

from asgiref.sync import iscoroutinefunction, sync_to_async
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.csrf import csrf_exempt

from jobexec.exceptions import NotAllowed, TooManyRequests, Unauthenticated

from .client import Client
from .limits import limit
from .verify import authenticate, known

_ATTRIBUTE = "_jobexec_gateway_client"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request is not served; ``title`` is the symbolic code of Camunda 8."""

    status: int
    title: str
    detail: str
    headers: dict[str, str] = field(default_factory=dict)


#: Makes the answer to a request that is refused, without its headers.
Problem = Callable[[HttpRequest, Refusal], HttpResponse]


def problem_json(request: HttpRequest, refusal: Refusal) -> HttpResponse:
    """The answer of RFC 9457, as Camunda 8 gives it."""
    body = {
        "type": "about:blank",
        "title": refusal.title,
        "status": refusal.status,
        "detail": refusal.detail,
        "instance": request.path,
    }
    return JsonResponse(body, status=refusal.status, content_type="application/problem+json")


def protected(
    permission: str = "work", *, problem: Problem = problem_json, limited: bool = True
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A view, async or not, for clients with this permission; it finds its own with :func:`client_of`.

    ``limited``: the request counts against the client's rate. Not for what finishes a job, which must get through.
    """

    def decorate(view: Callable[..., Any]) -> Callable[..., Any]:
        if iscoroutinefunction(view):
            return csrf_exempt(_awaited(view, permission, problem, limited))
        return csrf_exempt(_called(view, permission, problem, limited))

    return decorate


def client_of(request: HttpRequest) -> Client:
    """The client that sent the request to a view which is :func:`protected`."""
    client: Client = getattr(request, _ATTRIBUTE)
    return client


def _called(
    view: Callable[..., HttpResponse], permission: str, problem: Problem, limited: bool
) -> Callable[..., HttpResponse]:
    @wraps(view)
    def wrapped(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        refusal = _refusal(request, permission, limited)
        return _refused(request, refusal, problem) if refusal else view(request, *args, **kwargs)

    return wrapped


def _awaited(
    view: Callable[..., Awaitable[HttpResponse]], permission: str, problem: Problem, limited: bool
) -> Callable[..., Awaitable[HttpResponse]]:
    @wraps(view)
    async def wrapped(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        ask = _refusal if known(_authorization(request)) else sync_to_async(_refusal)
        answer = ask(request, permission, limited)
        refusal = answer if isinstance(answer, Refusal | None) else await answer
        return _refused(request, refusal, problem) if refusal else await view(request, *args, **kwargs)

    return wrapped


def _refusal(request: HttpRequest, permission: str, limited: bool) -> Refusal | None:
    try:
        client = authenticate(_authorization(request))
        client.check(permission)
        if limited:
            limit(client)
    except Unauthenticated as error:
        return Refusal(401, "UNAUTHORIZED", str(error), {"WWW-Authenticate": 'Basic realm="jobexec", Bearer'})
    except NotAllowed as error:
        return Refusal(403, "FORBIDDEN", str(error))
    except TooManyRequests as error:
        return Refusal(503, "RESOURCE_EXHAUSTED", str(error), {"Retry-After": str(math.ceil(error.retry_after))})
    setattr(request, _ATTRIBUTE, client)
    return None


def _authorization(request: HttpRequest) -> str | None:
    return request.META.get("HTTP_AUTHORIZATION")


def _refused(request: HttpRequest, refusal: Refusal, problem: Problem) -> HttpResponse:
    response = problem(request, refusal)
    for name, value in refusal.headers.items():
        response[name] = value
    return response
