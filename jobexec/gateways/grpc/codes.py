"""Which status a call ends with.

The codes are those of Zeebe's gateway, where real clients can live with them. Clients stop for good at some codes
(pyzeebe at INVALID_ARGUMENT, PERMISSION_DENIED and all that it does not know) and after ten of others (UNAVAILABLE,
INTERNAL, DEADLINE_EXCEEDED); at RESOURCE_EXHAUSTED all of them pause and try again. So whatever may be over in a moment
is RESOURCE_EXHAUSTED, also a database that is away.
"""

from __future__ import annotations

import logging

import grpc

from jobexec.exceptions import (
    IncidentNotFound,
    JobExecError,
    JobNotFound,
    JobStateError,
    NotAllowed,
    TooManyRequests,
    Unauthenticated,
    WrongWorker,
)
from jobexec.gateways.long_polling import Overloaded
from jobexec.operations.sql.errors import is_database_error, one_line

logger = logging.getLogger("jobexec.gateway")

Code = grpc.StatusCode


class BadRequest(JobExecError, ValueError):
    """A request says something that cannot be; the message names the field, and what was expected."""


_CODES: tuple[tuple[type[Exception] | tuple[type[Exception], ...], grpc.StatusCode], ...] = (
    (Unauthenticated, Code.UNAUTHENTICATED),
    (NotAllowed, Code.PERMISSION_DENIED),
    ((TooManyRequests, Overloaded), Code.RESOURCE_EXHAUSTED),
    ((JobNotFound, IncidentNotFound), Code.NOT_FOUND),
    ((JobStateError, WrongWorker), Code.FAILED_PRECONDITION),
    (ValueError, Code.INVALID_ARGUMENT),  # also InvalidJob
)
#: What Zeebe calls the rejection of a command.
_REJECTIONS = {
    Code.NOT_FOUND: "NOT_FOUND",
    Code.FAILED_PRECONDITION: "INVALID_STATE",
    Code.INVALID_ARGUMENT: "INVALID_ARGUMENT",
    Code.PERMISSION_DENIED: "FORBIDDEN",
}
_AWAY = "The database does not answer, or is too busy; try again a moment later."
_BUG = "Unexpected error occurred between gateway and engine; its log says more."


def status_of(error: Exception, command: str = "") -> tuple[grpc.StatusCode, str]:
    """The code and the text for an error. ``command`` is what Zeebe calls the command that it refuses."""
    code = next((code for kind, code in _CODES if isinstance(error, kind) and _is_said(error)), None)
    if code is None and is_database_error(error):
        logger.warning("A call over gRPC could not reach the database: %s", one_line(error))
        return Code.RESOURCE_EXHAUSTED, _AWAY
    if code is None:
        logger.error("A call over gRPC failed", exc_info=error)
        return Code.INTERNAL, _BUG
    if command and code in _REJECTIONS:
        return code, f"Command '{command}' rejected with code '{_REJECTIONS[code]}': {error}"
    return code, str(error)


def _is_said(error: Exception) -> bool:
    """Whether the error is one of ours; a ValueError of something else is a bug."""
    return isinstance(error, JobExecError)
