"""Common handling of all calls: permissions, threads and error responses."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, TypeAlias

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.core.signals import got_request_exception
from django.db import connections, transaction
from django.http import HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.views.decorators.csrf import csrf_exempt

from jobexec.gateways import long_polling
from jobexec.gateways.auth import REQUESTS, Allowance, protected
from jobexec.gateways.rest.common import database
from jobexec.operations.audit import carried
from jobexec.operations.sql.errors import one_line

from .problems import INTERNAL, METHOD_NOT_ALLOWED, answer, code_of, invalid, problem

logger = logging.getLogger("jobexec.gateway")

View: TypeAlias = Callable[..., Awaitable[HttpResponseBase]]


def endpoint(*permissions: str, counts: Allowance = REQUESTS) -> Callable[[Callable[..., HttpResponseBase]], View]:
    """Turn a function that uses the database into a view for clients with one of these permissions.

    Under ASGI it runs in one of the hub's few threads, which keep their connections; under WSGI in the thread of the
    request. Exceptions become problem responses.
    """

    def decorate(function: Callable[..., HttpResponseBase]) -> View:
        @wraps(function)
        async def view(request: HttpRequest, **parts: Any) -> HttpResponseBase:
            if isinstance(request, ASGIRequest):
                return await long_polling.of(database()).run(carried(function), request, **parts)
            return await sync_to_async(function)(request, **parts)

        return guarded(*permissions, counts=counts)(view)

    return decorate


def guarded(*permissions: str, counts: Allowance = REQUESTS) -> Callable[[View], View]:
    """The same for a coroutine, which must not use the database itself."""

    def decorate(view: View) -> View:
        # Outside ATOMIC_REQUESTS: the verbs have their own transactions, and Django does not support it for coroutines.
        for alias in connections:
            view = transaction.non_atomic_requests(using=alias)(view)
        guarded: View = protected(*permissions, counts=counts)(_answering(view))
        return guarded

    return decorate


def _answering(view: View) -> View:
    @wraps(view)
    async def wrapped(request: HttpRequest, **parts: Any) -> HttpResponseBase:
        try:
            return await view(request, **parts)
        except Exception as error:
            code = code_of(error)
            if code == INTERNAL:
                got_request_exception.send(sender=None, request=request)
                logger.exception("%s %s failed", request.method, one_line(request.path))
            elif code.status >= 500:  # without a traceback: may occur with every request for a while
                logger.warning("%s %s: %s: %s", request.method, one_line(request.path), code.title, one_line(error))
            return answer(request, error)

    return wrapped


def by_method(**views: View) -> Any:
    """Dispatch a URL to a view by method: ``by_method(GET=show, PATCH=update)``."""

    @csrf_exempt
    async def dispatch(request: HttpRequest, **parts: Any) -> HttpResponseBase:
        view = views.get(str(request.method))
        if view is not None:
            return await view(request, **parts)
        response = problem(request, METHOD_NOT_ALLOWED, f"Expected {' or '.join(views)}, got {request.method}.")
        response["Allow"] = ", ".join(views)
        return response

    for alias in connections:
        dispatch = transaction.non_atomic_requests(using=alias)(dispatch)
    dispatch.methods = tuple(views)  # type: ignore[attr-defined]
    return dispatch


def key_in(field: str, text: str) -> int:
    """Parse a key from the URL. Raises Refused."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 25):
        raise invalid(field, "a decimal number", text)
    return int(text)


def json_answer(value: dict[str, Any]) -> HttpResponse:
    return JsonResponse(value, json_dumps_params={"ensure_ascii": False})
