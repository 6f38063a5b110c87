"""The status code for each error.

The codes are those of Zeebe's gateway wherever real clients cope with them. Clients stop permanently at some codes
(pyzeebe at INVALID_ARGUMENT, PERMISSION_DENIED and all codes that it does not know) and after ten of others
(UNAVAILABLE, INTERNAL, DEADLINE_EXCEEDED); at RESOURCE_EXHAUSTED all clients pause and try again. Therefore any
temporary problem is RESOURCE_EXHAUSTED, including a database outage. Node's client repeats a call after it, and after
UNAVAILABLE, DEADLINE_EXCEEDED and (once) UNAUTHENTICATED, so what may have happened must not be one of these.
"""

from __future__ import annotations

import logging

import grpc

from jobexec.exceptions import (
    IncidentNotFound,
    JobExecError,
    JobNotFound,
    JobStateError,
    MessageExists,
    NotAllowed,
    NotDecryptableYet,
    TooManyRequests,
    Unauthenticated,
    WrongWorker,
)
from jobexec.gateways import added
from jobexec.gateways.long_polling import Overloaded
from jobexec.gateways.unstorable import EXPECTED, UNSTORABLE
from jobexec.operations.sql.errors import one_line
from jobexec.operations.sql.session import is_of_connection
from jobexec.runtime.database_threads import OutcomeUnknown

logger = logging.getLogger("jobexec.gateway")

Code = grpc.StatusCode


class BadRequest(JobExecError, ValueError):
    """A request is not valid; the message names the field and what was expected."""


_CODES: tuple[tuple[type[Exception] | tuple[type[Exception], ...], grpc.StatusCode], ...] = (
    (Unauthenticated, Code.UNAUTHENTICATED),
    (NotAllowed, Code.PERMISSION_DENIED),
    ((TooManyRequests, Overloaded), Code.RESOURCE_EXHAUSTED),
    ((JobNotFound, IncidentNotFound), Code.NOT_FOUND),
    (MessageExists, Code.ALREADY_EXISTS),
    ((JobStateError, WrongWorker), Code.FAILED_PRECONDITION),
    (NotDecryptableYet, Code.UNAVAILABLE),
    (OutcomeUnknown, Code.ABORTED),
    (ValueError, Code.INVALID_ARGUMENT),  # also InvalidJob
)
#: The statuses for the codes of errors that other apps add.
_ADDED = {
    "NOT_FOUND": Code.NOT_FOUND,
    "INVALID_ARGUMENT": Code.INVALID_ARGUMENT,
    "INVALID_STATE": Code.FAILED_PRECONDITION,
    "RESOURCE_EXHAUSTED": Code.RESOURCE_EXHAUSTED,
    "DEADLINE_EXCEEDED": Code.DEADLINE_EXCEEDED,
}
#: Zeebe's names for the rejection of a command.
_REJECTIONS = {
    Code.NOT_FOUND: "NOT_FOUND",
    Code.ALREADY_EXISTS: "ALREADY_EXISTS",
    Code.FAILED_PRECONDITION: "INVALID_STATE",
    Code.INVALID_ARGUMENT: "INVALID_ARGUMENT",
    Code.PERMISSION_DENIED: "FORBIDDEN",
}
_AWAY = "The database does not answer, or is too busy; try again in a moment."
_BUG = "Unexpected error occurred between gateway and engine; its log says more."


def status_of(error: Exception, command: str = "") -> tuple[grpc.StatusCode, str]:
    """The code and the text for an error. ``command`` is Zeebe's name for the refused command."""
    code = next((code for kind, code in _CODES if isinstance(error, kind) and _is_said(error)), None)
    code = code or _ADDED.get(added.code_of(error) or "")
    if code is None and isinstance(error, UNSTORABLE):
        code, error = Code.INVALID_ARGUMENT, BadRequest(EXPECTED)
    if code is None and is_of_connection(error):
        logger.warning("A call over gRPC could not reach the database: %s", one_line(error))
        return Code.RESOURCE_EXHAUSTED, _AWAY
    if code is None:
        logger.error("A call over gRPC failed", exc_info=error)
        return Code.INTERNAL, _BUG
    if command and code in _REJECTIONS:
        return code, f"Command '{command}' rejected with code '{_REJECTIONS[code]}': {error}"
    return code, str(error)


def _is_said(error: Exception) -> bool:
    """Return whether jobexec raised the error on purpose; any other ValueError is a bug."""
    return isinstance(error, JobExecError)
