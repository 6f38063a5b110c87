"""Error responses in Camunda 8's format: application/problem+json with the symbolic code as title."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse

from jobexec.exceptions import (
    IncidentNotFound,
    InvalidJob,
    InvalidQuery,
    JobNotFound,
    JobStateError,
    MessageExists,
    NotAllowed,
    NotDecryptableYet,
    TooManyRequests,
    WrongWorker,
)
from jobexec.gateways import added
from jobexec.gateways.auth import Refusal
from jobexec.gateways.auth.views import problem_json
from jobexec.gateways.long_polling import Overloaded
from jobexec.gateways.unstorable import EXPECTED, UNSTORABLE
from jobexec.runtime.database_threads import OutcomeUnknown


class Code(NamedTuple):
    """An HTTP status and its symbolic code for ``title``."""

    status: int
    title: str


INVALID_ARGUMENT = Code(400, "INVALID_ARGUMENT")
FORBIDDEN = Code(403, "FORBIDDEN")
NOT_FOUND = Code(404, "NOT_FOUND")
METHOD_NOT_ALLOWED = Code(405, "METHOD_NOT_ALLOWED")
INVALID_STATE = Code(409, "INVALID_STATE")
ALREADY_EXISTS = Code(409, "ALREADY_EXISTS")
TOO_LARGE = Code(413, "INVALID_ARGUMENT")
INTERNAL = Code(500, "INTERNAL")
ABORTED = Code(502, "ABORTED")
RESOURCE_EXHAUSTED = Code(503, "RESOURCE_EXHAUSTED")
UNAVAILABLE = Code(503, "UNAVAILABLE")
DEADLINE_EXCEEDED = Code(504, "DEADLINE_EXCEEDED")

#: The codes of errors that other apps add.
_ADDED = {
    code.title: code for code in (INVALID_ARGUMENT, NOT_FOUND, INVALID_STATE, RESOURCE_EXHAUSTED, DEADLINE_EXCEEDED)
}

#: The first match applies.
_CODES: Mapping[type[Exception], Code] = {
    InvalidJob: INVALID_ARGUMENT,
    InvalidQuery: INVALID_ARGUMENT,
    JobNotFound: NOT_FOUND,
    IncidentNotFound: NOT_FOUND,
    NotAllowed: FORBIDDEN,
    JobStateError: INVALID_STATE,
    MessageExists: ALREADY_EXISTS,
    WrongWorker: INVALID_STATE,
    NotDecryptableYet: UNAVAILABLE,
    OutcomeUnknown: ABORTED,
    Overloaded: RESOURCE_EXHAUSTED,
    TooManyRequests: RESOURCE_EXHAUSTED,
    OperationalError: UNAVAILABLE,
    InterfaceError: UNAVAILABLE,
    **dict.fromkeys(UNSTORABLE, INVALID_ARGUMENT),
}


class Refused(Exception):
    """Raised by a view to respond with a problem."""

    def __init__(self, code: Code, detail: str) -> None:
        super().__init__(detail)
        self.code, self.detail = code, detail


def invalid(field: str, expected: str, got: object) -> Refused:
    """An error for an invalid member of the body or parameter."""
    return Refused(INVALID_ARGUMENT, f"{field}: expected {expected}, got {_shortened(repr(got))}.")


def _shortened(text: str) -> str:
    return text if len(text) <= 100 else f"{text[:97]}..."


def code_of(error: Exception) -> Code:
    """The code for an exception; INTERNAL for an unexpected one."""
    if isinstance(error, Refused):
        return error.code
    code = next((code for kind, code in _CODES.items() if isinstance(error, kind)), None)
    return code or _ADDED.get(added.code_of(error) or "", INTERNAL)


def problem(request: HttpRequest, code: Code, detail: str) -> HttpResponse:
    """Build a problem response."""
    response = problem_json(request, Refusal(code.status, code.title, detail))
    if code.status == 503:
        response["Retry-After"] = "1"
    return response


def answer(request: HttpRequest, error: Exception) -> HttpResponse:
    """The response to an exception from a verb or a view; gives no details of unexpected exceptions."""
    code = code_of(error)
    if code == INTERNAL:
        return problem(request, code, "Unexpected error occurred during the request processing; see the server's log.")
    if code == UNAVAILABLE and not isinstance(error, NotDecryptableYet):
        return problem(request, code, "The database does not answer.")
    if isinstance(error, UNSTORABLE):
        return problem(request, code, EXPECTED)
    return problem(request, code, str(error))
