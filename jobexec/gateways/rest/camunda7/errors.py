"""What a request that failed is answered, in the form of Camunda 7: type, message and code."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, JsonResponse

from jobexec.gateways.auth import Refusal

#: Where Camunda has a type for what the access layer refuses.
_REFUSALS = {401: "AuthenticationException", 403: "AuthorizationException"}


class EngineError(Exception):
    """A request that cannot be answered as it is meant. ``type`` is the name of Camunda's exception."""

    def __init__(self, status: int, type: str, message: str) -> None:
        self.status, self.type, self.message = status, type, message
        super().__init__(message)


def invalid(message: str) -> EngineError:
    """The request itself is wrong."""
    return EngineError(400, "InvalidRequestException", message)


def refused(message: str) -> EngineError:
    """The request is right, and the task is not in the state for it, or is another worker's."""
    return EngineError(400, "RestException", message)


def no_such_task(id: str) -> EngineError:
    """There is none of this id, or none that the client may see."""
    return EngineError(404, "RestException", f"External task with id {id} does not exist")


def answer(error: EngineError) -> HttpResponse:
    """The answer to a request that failed so."""
    # Zero is Camunda's code for whatever has no code of its own.
    return JsonResponse({"type": error.type, "message": error.message, "code": 0}, status=error.status)


def problem(request: HttpRequest, refusal: Refusal) -> HttpResponse:
    """The answer to a request that the access layer refuses."""
    return answer(EngineError(refusal.status, _REFUSALS.get(refusal.status, "RestException"), refusal.detail))
