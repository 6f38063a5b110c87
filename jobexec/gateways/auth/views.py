"""Access control for views."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

from asgiref.sync import iscoroutinefunction, sync_to_async
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.views.decorators.csrf import csrf_exempt

from jobexec.exceptions import NotAllowed, TooManyRequests, Unauthenticated
from jobexec.operations.audit import acting

from .audit import audit, logger, operator_of
from .browsers import is_json, refuse_other_sites
from .client import Client
from .limits import REQUESTS, Allowance, limit, succeeded
from .rejected_log import address_of, rejections
from .users import again, by_session, within_tenants
from .verify import authenticate, is_refused, known

#: Permissions for changes beyond working on jobs.
_AUDITED = frozenset({"update", "resolve", "publish", "deploy", "start", "tasks"})
_ATTRIBUTE = "_jobexec_gateway_client"
#: The content type of files.
FORM = "multipart/form-data"


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reason for refusing a request; ``title`` is the symbolic code of Camunda 8."""

    status: int
    title: str
    detail: str
    headers: dict[str, str] = field(default_factory=dict)


#: Returns the client of a request. Raises Unauthenticated, NotAllowed and TooManyRequests.
Who = Callable[[HttpRequest], Client]

#: Builds the response to a refused request; the refusal's headers are added to it.
Problem = Callable[[HttpRequest, Refusal], HttpResponse]


def problem_json(request: HttpRequest, refusal: Refusal) -> HttpResponse:
    """The problem response of RFC 9457, in Camunda 8's form."""
    body = {
        "type": "about:blank",
        "title": refusal.title,
        "status": refusal.status,
        "detail": refusal.detail,
        "instance": request.path,
    }
    response = JsonResponse(body, status=refusal.status, content_type="application/problem+json")
    return not_logged(response) if refusal.title == "RESOURCE_EXHAUSTED" else response


def not_logged(response: HttpResponse) -> HttpResponse:
    """Keep Django from logging a response.

    Overload responses may occur a thousand times per second, and Django would log and mail each of them as an error.
    """
    response._has_been_logged = True  # type: ignore[attr-defined]
    return response


def protected(
    *permissions: str, problem: Problem = problem_json, counts: Allowance = REQUESTS, form_limit: int = 0
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Restrict a view, sync or async, to clients with one of these permissions (default: "work").

    In the view, :func:`client_of` returns the client. ``counts`` is the allowance that requests count against. The view
    is exempt from Django's CSRF protection, which is checked only if the credentials are a session. ``form_limit``: the
    body is not JSON, but a form with files, of at most this many bytes, which are counted before it is read.
    """
    rule = _Rule(permissions or ("work",), problem, counts, form_limit)

    def decorate(view: Callable[..., Any]) -> Callable[..., Any]:
        return csrf_exempt(_awaited(view, rule) if iscoroutinefunction(view) else _called(view, rule))

    return decorate


def client_of(request: HttpRequest) -> Client:
    """The client that sent the request to a :func:`protected` view."""
    client: Client = getattr(request, _ATTRIBUTE)
    return client


@dataclass(frozen=True, slots=True)
class _Rule:
    """The access rule of a view, and how refusals are answered."""

    permissions: tuple[str, ...]
    problem: Problem
    counts: Allowance
    form_limit: int = 0

    def refusal(self, request: HttpRequest, who: Who | None = None) -> Refusal | None:
        """Why the request is refused, or None. Queries the database unless ``who`` returns the client without it."""
        try:
            if self.form_limit and int(request.META.get("CONTENT_LENGTH") or 0) > self.form_limit:
                return Refusal(413, "INVALID_ARGUMENT", f"The body: expected at most {self.form_limit:,} bytes.")
            refuse_other_sites(request)
            client = (who or _client)(request)
            client.check(*self.permissions)
            limit(client, self.counts)
            if self.form_limit and request.content_type != FORM:
                detail = f"The body: expected the content type {FORM}, got {request.content_type!r}."
                return Refusal(415, "INVALID_ARGUMENT", detail)
            if not self.form_limit and not is_json(request):
                detail = f"The body: expected the content type application/json, got {request.content_type!r}."
                return Refusal(415, "INVALID_ARGUMENT", detail)
        except Unauthenticated as error:
            rejections.tell(request.META.get("REMOTE_ADDR") or "", error)
            return Refusal(401, "UNAUTHORIZED", str(error), {"WWW-Authenticate": 'Basic realm="jobexec", Bearer'})
        except NotAllowed as error:
            return Refusal(403, "FORBIDDEN", str(error))
        except TooManyRequests as error:
            return Refusal(503, "RESOURCE_EXHAUSTED", str(error), {"Retry-After": str(math.ceil(error.retry_after))})
        except (OperationalError, InterfaceError):
            logger.exception("Cannot authenticate requests: the database does not answer.")
            return Refusal(503, "UNAVAILABLE", "The database does not answer.", {"Retry-After": "1"})
        setattr(request, _ATTRIBUTE, client)
        return None

    def refused(self, request: HttpRequest, refusal: Refusal) -> HttpResponse:
        response = self.problem(request, refusal)
        if refusal.title == "RESOURCE_EXHAUSTED":
            not_logged(response)
        for name, value in refusal.headers.items():
            response[name] = value
        return response

    def acting(self, request: HttpRequest) -> AbstractContextManager[None]:
        """Attribute an operator's changes to the client. Workers' reports are recorded in the job log instead."""
        if _AUDITED.isdisjoint(self.permissions):
            return nullcontext()
        return acting(operator_of(client_of(request), "REST", str(request.META.get("REMOTE_ADDR") or "")))

    def done(self, request: HttpRequest, response: HttpResponseBase) -> None:
        if response.status_code >= 400:
            return
        succeeded(client_of(request), self.counts)
        if _AUDITED.issuperset(self.permissions):
            audit(client_of(request), str(request.method), request.path)


def _called(view: Callable[..., HttpResponseBase], rule: _Rule) -> Callable[..., HttpResponseBase]:
    @wraps(view)
    def wrapped(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        refusal = rule.refusal(request)
        if refusal:
            return rule.refused(request, refusal)
        with rule.acting(request):
            response = view(request, *args, **kwargs)
        rule.done(request, response)
        return response

    return wrapped


def _awaited(
    view: Callable[..., Awaitable[HttpResponseBase]], rule: _Rule
) -> Callable[..., Awaitable[HttpResponseBase]]:
    @wraps(view)
    async def wrapped(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        who = _remembered(request)
        refusal = rule.refusal(request, who) if who else await sync_to_async(rule.refusal)(request)
        if refusal:
            return rule.refused(request, refusal)
        with rule.acting(request):
            response = await view(request, *args, **kwargs)
        rule.done(request, response)
        return response

    return wrapped


def _remembered(request: HttpRequest) -> Who | None:
    """A function that returns or refuses the client from the cache; None if the database has to be queried."""
    client = known(_authorization(request))
    if client:
        return lambda _: client
    return _nobody if is_refused(_authorization(request)) else None


def _nobody(request: HttpRequest) -> Client:
    raise Unauthenticated


def _client(request: HttpRequest) -> Client:
    authorization = _authorization(request)
    if not known(authorization) and not (authorization or "").strip():
        client = by_session(request)
        if client:
            return within_tenants(client, request)
    return _by_header(request)


def _by_header(request: HttpRequest) -> Client:
    address = address_of(request.META.get("REMOTE_ADDR") or "")
    return authenticate(_authorization(request), request=request, address=address)


def is_still_let_in(request: HttpRequest) -> bool:
    """Return whether the client of a :func:`protected` view that has waited still has the same access.

    Queries the database unless the result is cached.
    """
    before = client_of(request)
    try:
        by_header = (_authorization(request) or "").strip() or before.user is None
        client = _by_header(request) if by_header else again(before, request)
    except (Unauthenticated, NotAllowed, TooManyRequests):
        return False
    return client.caller == before.caller and client.permissions == before.permissions


def _authorization(request: HttpRequest) -> str | None:
    return request.META.get("HTTP_AUTHORIZATION")
