"""Common handling of all calls: permissions, methods and error responses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, TypeAlias

from django.http import HttpRequest, HttpResponse, HttpResponseBase

from jobexec.exceptions import InvalidJob, JobNotFound, JobStateError, NotAllowed
from jobexec.gateways import added, long_polling
from jobexec.gateways.auth import REQUESTS, Allowance, not_logged, protected
from jobexec.gateways.rest.common import AsyncView, in_database, log_error
from jobexec.gateways.unstorable import EXPECTED, UNSTORABLE
from jobexec.runtime.connections import own_transactions

from .errors import EngineError, answer, invalid, no_such_task, problem, refused

View: TypeAlias = Callable[..., HttpResponse]

#: The URL parameter for the engine's name; there is only one engine here, under any name.
ENGINE = "engine"


def endpoint(
    *methods: str, permission: str = "work", counts: Allowance = REQUESTS, form_limit: int = 0
) -> Callable[[View], AsyncView]:
    """Turn a function that uses the database into a view for these methods.

    It may raise EngineError, and the errors of the verbs on a single job.
    """

    def decorate(function: View) -> AsyncView:
        return guarded(*methods, permission=permission, counts=counts, form_limit=form_limit)(in_database(function))

    return decorate


def guarded(
    *methods: str, permission: str = "work", counts: Allowance = REQUESTS, form_limit: int = 0
) -> Callable[[AsyncView], AsyncView]:
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

        guarded: AsyncView = protect(own_transactions(wrapped))
        return guarded

    protect = protected(permission, problem=problem, counts=counts, form_limit=form_limit)

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
    except EngineError:
        raise
    except Exception as error:
        if (code := added.code_of(error)) is None:
            raise
        status, type = _ADDED.get(code, (500, "ProcessEngineException"))
        raise EngineError(status, type, str(error)) from error


#: Statuses and exceptions for the codes of errors that other apps add.
_ADDED = {
    "NOT_FOUND": (404, "InvalidRequestException"),
    "INVALID_ARGUMENT": (400, "InvalidRequestException"),
    "INVALID_STATE": (500, "RestException"),
}


def unexpected(request: HttpRequest) -> HttpResponse:
    """The JSON response to an unexpected error, for use in an ``except`` block; clients expect JSON here too."""
    log_error(request)
    return answer(EngineError(500, "ProcessEngineException", _UNEXPECTED))


_UNEXPECTED = "An unexpected error occurred; see the server's log."
