"""Parts shared by the views of both REST gateways."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, TypeAlias, TypeVar

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.core.signals import got_request_exception
from django.http import HttpRequest, HttpResponse, HttpResponseBase, JsonResponse

from jobexec.gateways import long_polling
from jobexec.gateways.auth import client_of
from jobexec.gateways.auth.client import database as database
from jobexec.operations import external
from jobexec.operations.audit import carried
from jobexec.operations.external.types import Caller, Completion
from jobexec.operations.sql.errors import one_line

logger = logging.getLogger("jobexec.gateway")

AsyncView: TypeAlias = Callable[..., Coroutine[Any, Any, HttpResponseBase]]
T = TypeVar("T")


def in_database(function: Callable[..., HttpResponseBase]) -> AsyncView:
    """Turn a function that uses the database into a coroutine; see :func:`with_database`."""

    @wraps(function)
    async def view(request: HttpRequest, **parts: Any) -> HttpResponseBase:
        return await with_database(request, function, request, **parts)

    return view


async def with_database(request: HttpRequest, function: Callable[..., T], *arguments: Any, **named: Any) -> T:
    """Call a function that uses the database.

    Under ASGI it runs in one of the hub's few threads, which keep their connections; under WSGI in the thread of the
    request. Raises Overloaded.
    """
    if isinstance(request, ASGIRequest):
        return await long_polling.of(database()).run(carried(function), *arguments, **named)
    return await sync_to_async(function)(*arguments, **named)


async def complete(request: HttpRequest, completion: Completion) -> None:
    """Complete a job, under ASGI together with others. Raises the errors of the verb, and Overloaded."""
    if isinstance(request, ASGIRequest):
        await long_polling.of(database()).completions.complete(completion)
    else:
        await sync_to_async(external.complete_external_job)(database(), **completion._asdict())


def log_error(request: HttpRequest) -> None:
    """Report an unexpected error, in an ``except`` block, as Django does for its own views."""
    got_request_exception.send(sender=None, request=request)
    logger.exception("%s %s failed", request.method, one_line(request.path))


def json_answer(value: Any) -> HttpResponse:
    """A JSON response with exactly ``application/json``: a client treats a type with a charset as binary data."""
    return JsonResponse(value, safe=False, json_dumps_params={"ensure_ascii": False})


def caller_of(request: HttpRequest) -> Caller:
    """The client of the request, in the form that operations need."""
    return client_of(request).caller


def nothing() -> HttpResponse:
    """Return an answer without a body, status 204."""
    response = HttpResponse(status=204)
    del response["Content-Type"]
    return response
