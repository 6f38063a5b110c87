"""The content of File variables, which is not sent with the task."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils.http import content_disposition_header

from jobexec.exceptions import DecryptionFailed, NotDecryptableYet
from jobexec.gateways.rest.common import caller_of, database
from jobexec.models import AbstractJob
from jobexec.operations.external.callbacks import opened
from jobexec.operations.external.types import Caller

from .bodies import Body
from .endpoint import endpoint
from .errors import EngineError
from .queries import TaskQuery
from .variables import file_of

_MANY = 100
_VARIABLES = "handler_configuration"


@endpoint("GET")
def data(request: HttpRequest, id: str, name: str) -> HttpResponse:
    """Return a file of the tasks of a process instance or execution; locked tasks take precedence."""
    for row in _rows(caller_of(request), id):
        found = file_of(_variables(row), name)
        if found is not None:
            content, info = found
            kind = _in_header(info.get("mimeType") or info.get("mimetype") or _BYTES)
            response = HttpResponse(content, content_type=kind)
            header = content_disposition_header(True, _in_header(info.get("filename") or name))
            response["Content-Disposition"] = header or "attachment"
            return response
    message = f"execution variable with name {name} does not exist or is not a file"
    raise EngineError(404, "InvalidRequestException", message)


_BYTES = "application/octet-stream"
_CONTROLS = dict.fromkeys([*range(32), 127], "_")


def _in_header(text: object) -> str:
    """A worker may have sent any text, and a header may not contain control characters."""
    return str(text).translate(_CONTROLS)


def _rows(caller: Caller, id: str) -> list[AbstractJob]:
    newest = {"sortBy": "lockExpirationTime", "sortOrder": "desc"}
    by_instance = TaskQuery(database(), caller, Body({"processInstanceId": id, "sorting": [newest]}))
    by_execution = TaskQuery(database(), caller, Body({"executionId": id, "sorting": [newest]}))
    return by_instance.rows(0, _MANY, _VARIABLES) or by_execution.rows(0, _MANY, _VARIABLES)


def _variables(row: AbstractJob) -> dict[str, Any]:
    try:
        configuration = opened(row)
    except (DecryptionFailed, NotDecryptableYet):
        return {}
    return {**(configuration.get("variables") or {}), **(configuration.get("local") or {})}
