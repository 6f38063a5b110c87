"""Common handling of all calls: permissions, threads and error responses."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.http import HttpRequest, HttpResponseBase
from django.views.decorators.csrf import csrf_exempt

from jobexec.gateways.auth import REQUESTS, Allowance, protected
from jobexec.gateways.rest.common import AsyncView, in_database, log_error, logger, own_transactions
from jobexec.operations.sql.errors import one_line

from .problems import INTERNAL, METHOD_NOT_ALLOWED, answer, code_of, invalid, problem


def endpoint(*permissions: str, counts: Allowance = REQUESTS) -> Callable[[Callable[..., HttpResponseBase]], AsyncView]:
    """Turn a function that uses the database into a view for clients with one of these permissions.

    Exceptions become problem responses.
    """

    def decorate(function: Callable[..., HttpResponseBase]) -> AsyncView:
        return guarded(*permissions, counts=counts)(in_database(function))

    return decorate


def guarded(*permissions: str, counts: Allowance = REQUESTS) -> Callable[[AsyncView], AsyncView]:
    """The same for a coroutine, which must not use the database itself."""

    def decorate(view: AsyncView) -> AsyncView:
        guarded: AsyncView = protected(*permissions, counts=counts)(_answering(own_transactions(view)))
        return guarded

    return decorate


def _answering(view: AsyncView) -> AsyncView:
    @wraps(view)
    async def wrapped(request: HttpRequest, **parts: Any) -> HttpResponseBase:
        try:
            return await view(request, **parts)
        except Exception as error:
            code = code_of(error)
            if code == INTERNAL:
                log_error(request)
            elif code.status >= 500:  # without a traceback: may occur with every request for a while
                logger.warning("%s %s: %s: %s", request.method, one_line(request.path), code.title, one_line(error))
            return answer(request, error)

    return wrapped


def by_method(**views: AsyncView) -> Any:
    """Dispatch a URL to a view by method: ``by_method(GET=show, PATCH=update)``."""

    @csrf_exempt
    async def dispatch(request: HttpRequest, **parts: Any) -> HttpResponseBase:
        view = views.get(str(request.method))
        if view is not None:
            return await view(request, **parts)
        response = problem(request, METHOD_NOT_ALLOWED, f"Expected {' or '.join(views)}, got {request.method}.")
        response["Allow"] = ", ".join(views)
        return response

    dispatch = own_transactions(dispatch)
    dispatch.methods = tuple(views)  # type: ignore[attr-defined]
    return dispatch


def key_in(field: str, text: str) -> int:
    """Parse a key from the URL. Raises Refused."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 25):
        raise invalid(field, "a decimal number", text)
    return int(text)
