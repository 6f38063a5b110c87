"""Error responses in the format of Camunda 7: type, message and code."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, JsonResponse

from jobexec.gateways.auth import Refusal

#: Camunda's exception types for refusals by the access layer, where it has any.
_REFUSALS = {401: "AuthenticationException", 403: "AuthorizationException"}


class EngineError(Exception):
    """A failed request. ``type`` is the name of Camunda's exception."""

    def __init__(self, status: int, type: str, message: str) -> None:
        self.status, self.type, self.message = status, type, message
        super().__init__(message)


def invalid(message: str) -> EngineError:
    """An error for an invalid request."""
    return EngineError(400, "InvalidRequestException", message)


def refused(message: str) -> EngineError:
    """An error for a valid request whose task is in the wrong state or locked by another worker."""
    return EngineError(400, "RestException", message)


def no_such_task(id: str) -> EngineError:
    """An error for an id without a task, or with a task that the client may not see."""
    return EngineError(404, "RestException", f"External task with id {id} does not exist")


def answer(error: EngineError) -> HttpResponse:
    """The response to a failed request."""
    # 0 is Camunda's code for errors without a code of their own.
    return JsonResponse({"type": error.type, "message": error.message, "code": 0}, status=error.status)


def problem(request: HttpRequest, refusal: Refusal) -> HttpResponse:
    """The response to a request that the access layer refuses."""
    return answer(EngineError(refusal.status, _REFUSALS.get(refusal.status, "RestException"), refusal.detail))
