"""Common handling of all calls: permissions, methods and error responses."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, TypeAlias

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.core.signals import got_request_exception
from django.db import connections, transaction
from django.http import HttpRequest, HttpResponse, HttpResponseBase, JsonResponse

from jobexec.exceptions import InvalidJob, JobNotFound, JobStateError, NotAllowed
from jobexec.gateways import long_polling
from jobexec.gateways.auth import REQUESTS, Allowance, not_logged, protected
from jobexec.gateways.rest.common import database
from jobexec.gateways.rest.unstorable import EXPECTED, UNSTORABLE
from jobexec.operations.audit import carried
from jobexec.operations.sql.errors import one_line

from .errors import EngineError, answer, invalid, no_such_task, problem, refused

logger = logging.getLogger("jobexec.gateway")

View: TypeAlias = Callable[..., HttpResponse]
AsyncView: TypeAlias = Callable[..., Coroutine[Any, Any, HttpResponseBase]]

#: The URL parameter for the engine's name; there is only one engine here, under any name.
ENGINE = "engine"


def endpoint(*methods: str, permission: str = "work", counts: Allowance = REQUESTS) -> Callable[[View], AsyncView]:
    """Turn a function that uses the database into a view for these methods.

    Under ASGI it runs in one of the hub's few threads, which keep their connections; under WSGI in the thread of the
    request. It may raise EngineError, and the errors of the verbs on a single job.
    """

    def decorate(function: View) -> AsyncView:
        @wraps(function)
        async def view(request: HttpRequest, **parts: Any) -> HttpResponseBase:
            if isinstance(request, ASGIRequest):
                return await long_polling.of(database()).run(carried(function), request, **parts)
            return await sync_to_async(function)(request, **parts)

        return guarded(*methods, permission=permission, counts=counts)(view)

    return decorate


def guarded(*methods: str, permission: str = "work", counts: Allowance = REQUESTS) -> Callable[[AsyncView], AsyncView]:
    """The same for a coroutine, which must not use the database itself."""

    def decorate(view: AsyncView) -> AsyncView:
        @wraps(view)
        async def wrapped(request: HttpRequest, **parts: Any) -> HttpResponseBase:
            parts.pop(ENGINE, None)
            try:
                with said():
                    check_method(request, *methods)
                    return await view(request, **parts)
            except EngineError as error:
                return answer(error)
            except long_polling.Overloaded:
                return not_logged(answer(EngineError(500, "InvalidRequestException", _TOO_MANY)))
            except UNSTORABLE:
                return answer(invalid(EXPECTED))
            except Exception:
                return unexpected(request)

        # Outside ATOMIC_REQUESTS: the verbs have their own transactions, and Django does not support it for coroutines.
        for alias in connections:
            wrapped = transaction.non_atomic_requests(using=alias)(wrapped)
        guarded: AsyncView = protected(permission, problem=problem, counts=counts)(wrapped)
        return guarded

    return decorate


_TOO_MANY = "At the moment the server has to handle too many requests at the same time. Please try again later."


def check_method(request: HttpRequest, *methods: str) -> None:
    """Raise EngineError (405) for any other method."""
    if request.method not in methods:
        raise EngineError(405, "NotAllowedException", f"expected {' or '.join(methods)}, got {request.method}.")


@contextmanager
def said(id: str = "") -> Iterator[None]:
    """Convert the errors of the verbs to Camunda's. Raises EngineError."""
    try:
        yield
    except JobNotFound as error:
        raise no_such_task(id) from error
    except NotAllowed as error:
        raise EngineError(403, "AuthorizationException", str(error)) from error
    except InvalidJob as error:
        raise invalid(str(error)) from error
    except JobStateError as error:
        raise refused(str(error)) from error


def unexpected(request: HttpRequest) -> HttpResponse:
    """The JSON response to an unexpected error, for use in an ``except`` block; clients expect JSON here too."""
    got_request_exception.send(sender=None, request=request)
    logger.exception("%s %s failed", request.method, one_line(request.path))
    return answer(EngineError(500, "ProcessEngineException", _UNEXPECTED))


_UNEXPECTED = "An unexpected error occurred; see the server's log."


def json_answer(value: Any) -> HttpResponse:
    """A JSON response with exactly ``application/json``: a client treats a type with a charset as binary data."""
    return JsonResponse(value, safe=False, json_dumps_params={"ensure_ascii": False})
