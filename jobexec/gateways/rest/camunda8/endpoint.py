"""Common handling of all calls: permissions, what they take, threads and error responses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any

from django.http import HttpRequest, HttpResponseBase
from django.views.decorators.csrf import csrf_exempt

from jobexec.gateways.auth import REQUESTS, Allowance, protected
from jobexec.gateways.rest.common import AsyncView, in_database, log_error, logger
from jobexec.operations.sql.errors import one_line
from jobexec.runtime.connections import own_transactions

from .contract import Pages, Request, Response
from .problems import INTERNAL, METHOD_NOT_ALLOWED, answer, code_of, invalid, problem


@dataclass(frozen=True, slots=True)
class Operation:
    """The request and the response of a call; ``name`` and ``summary`` are those in OpenAPI.

    ``problems`` are the statuses of errors that other calls do not have.
    """

    name: str
    summary: str
    takes: Request | None = None
    gives: Response[...] | Pages | None = None
    query: Request | None = None
    problems: tuple[int, ...] = ()

    def arguments(self, request: HttpRequest, keys: Mapping[str, str]) -> dict[str, Any]:
        """The arguments of the view: the keys in the URL, ``body`` and ``query``. Raises Refused."""
        found: dict[str, Any] = {name: key_in(member_name(name), text) for name, text in keys.items()}
        if self.takes is not None:
            found["body"] = self.takes.read(request)
        if self.query is not None:
            found["query"] = self.query.values({name: value for name, value in request.GET.items() if value})
        return found


def endpoint(
    *permissions: str, operation: Operation, counts: Allowance = REQUESTS, form_limit: int = 0
) -> Callable[[Callable[..., HttpResponseBase]], AsyncView]:
    """Turn a function that uses the database into a view for clients with one of these permissions.

    Exceptions become problem responses. ``form_limit``: see :func:`~jobexec.gateways.auth.protected`.
    """

    def decorate(function: Callable[..., HttpResponseBase]) -> AsyncView:
        @wraps(function)
        def call(request: HttpRequest, **keys: str) -> HttpResponseBase:
            return function(request, **operation.arguments(request, keys))

        return _guarded(in_database(call), permissions, counts, operation, form_limit)

    return decorate


def async_endpoint(
    *permissions: str, operation: Operation, counts: Allowance = REQUESTS
) -> Callable[[AsyncView], AsyncView]:
    """The same for a coroutine, which must not use the database itself."""

    def decorate(view: AsyncView) -> AsyncView:
        @wraps(view)
        async def call(request: HttpRequest, **keys: str) -> HttpResponseBase:
            return await view(request, **operation.arguments(request, keys))

        return _guarded(call, permissions, counts, operation)

    return decorate


def _guarded(
    view: AsyncView, permissions: tuple[str, ...], counts: Allowance, operation: Operation, form_limit: int = 0
) -> AsyncView:
    protect = protected(*permissions, counts=counts, form_limit=form_limit)
    guarded: AsyncView = protect(_answering(own_transactions(view)))
    guarded.operation = operation  # type: ignore[attr-defined]
    return guarded


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
    dispatch.views = views  # type: ignore[attr-defined]
    return dispatch


def member_name(argument: str) -> str:
    """The name in the contract of an argument of a view: jobKey for job_key."""
    first, *others = argument.split("_")
    return first + "".join(word.title() for word in others)


def key_in(field: str, text: str) -> int:
    """Parse a key from the URL. Raises Refused."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 25):
        raise invalid(field, "a decimal number", text)
    return int(text)
