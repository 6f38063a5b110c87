"""Suspending and modifying: what operators change, and instances that start in the middle."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.http import HttpRequest, HttpResponse

from jobexec.gateways.rest.camunda7.bodies import Body, body_of
from jobexec.gateways.rest.camunda7.endpoint import endpoint
from jobexec.gateways.rest.camunda7.errors import invalid
from jobexec.gateways.rest.camunda7.times import moment
from jobexec.gateways.rest.camunda7.variables import to_json
from jobexec.gateways.rest.common import caller_of, database, nothing
from jobexec.identifiers import as_id

from ...engine.inputs import Change, Command
from ...models import ProcessDefinition
from ...operations.modify import command
from ...operations.suspend import activate, suspend
from .. import found, verbs
from .access import definition_by_id, definition_by_key, instance_by_id, missing

_SKIPS = ("skipCustomListeners", "skipIoMappings")
_STARTS = {"startBeforeActivity": Change.BEFORE, "startAfterActivity": Change.AFTER}


@endpoint("PUT", permission="update")
def suspend_instance(request: HttpRequest, id: str) -> HttpResponse:
    """PUT /process-instance/{id}/suspended."""
    row = instance_by_id(request, id)
    change = suspend if _is_suspended(body_of(request)) else activate
    change(row, using=database())
    return nothing()


@endpoint("PUT", permission="update")
def suspend_definition(request: HttpRequest, id: str) -> HttpResponse:
    """PUT /process-definition/{id}/suspended: one version."""
    return _suspend_version(body_of(request), definition_by_id(request, id))


@endpoint("PUT", permission="update")
def suspend_definition_of_key(request: HttpRequest, key: str, tenant: str | None = None) -> HttpResponse:
    """PUT /process-definition/key/{key}/suspended: its latest version, as in Camunda."""
    return _suspend_version(body_of(request), definition_by_key(request, key, tenant))


@endpoint("PUT", permission="update")
def suspend_definitions(request: HttpRequest) -> HttpResponse:
    """PUT /process-definition/suspended: a version by its id, or all versions by their key."""
    body = body_of(request)
    id, key = body.text("processDefinitionId"), body.text("processDefinitionKey")
    if (id is None) == (key is None):
        raise invalid("processDefinitionId, processDefinitionKey: expected exactly one of them.")
    if id is not None:
        return _suspend_version(body, definition_by_id(request, id))
    assert key is not None
    rows = found.definitions(database(), caller_of(request)).filter(key=key).order_by()
    tenants = sorted(set(rows.values_list("tenant_id", flat=True).distinct()))
    if not tenants:
        missing(f"No matching process definition with key: {key}")
    for tenant in tenants:  # those that the client may see
        _suspend(body, key, {"tenant_id": tenant})
    return nothing()


def _suspend_version(body: Body, row: ProcessDefinition) -> HttpResponse:
    _suspend(body, row.key, {"version": row.version, "tenant_id": row.tenant_id})
    return nothing()


def _suspend(body: Body, key: str, scope: dict[str, Any]) -> None:
    at = _date(body)
    if _is_suspended(body):
        suspend(key, **scope, at=at, include_instances=body.flag("includeProcessInstances"), using=database())
    else:
        activate(key, **scope, at=at, using=database())


def _is_suspended(body: Body) -> bool:
    if not body.has("suspended"):
        raise invalid("suspended: expected true or false, got null.")
    return body.flag("suspended")


def _date(body: Body) -> datetime | None:
    text = body.text("executionDate")
    return None if text is None else moment("executionDate", text)


@endpoint("POST", permission="update")
def modify(request: HttpRequest, id: str) -> HttpResponse:
    """POST /process-instance/{id}/modification: all instructions are one step, in their order."""
    row, body = instance_by_id(request, id), body_of(request)
    commands = instructions(body, "instructions", refused=("skipIoMappings",))
    if not commands:
        raise invalid("instructions: expected at least one, got none.")
    skip = body.flag("skipCustomListeners")
    verbs.modify(database(), row, commands, body.text("annotation") or "", skip_listeners=skip)
    return nothing()


def instructions(body: Body, name: str, refused: Sequence[str] = _SKIPS) -> list[Command]:
    """Those of a modification, or of a start. Raises EngineError for what there is not here, and names it."""
    for flag in refused:
        if body.flag(flag):
            raise invalid(f"{flag}: expected false: it is not supported here.")
    return [_command(each, f"{name}[{number}]", name) for number, each in enumerate(body.objects(name, most=_MOST))]


_MOST = verbs.MOST_COMMANDS


def _command(body: Body, path: str, name: str) -> Command:
    kind = body.needed_text("type")
    allowed = {*_STARTS} | ({"cancel"} if name == "instructions" else set())
    if kind not in allowed:
        raise invalid(f"{path}.type: expected one of {', '.join(sorted(allowed))}, got {kind}.")
    for member in ("transitionId", "transitionInstanceId"):
        if body.has(member):
            raise invalid(f"{path}.{member}: expected none: an instruction names an activity.")
    element = body.needed_text("activityId")
    if kind == "cancel":
        return command(Change.CANCEL, element, None, _activity(body, path, "activityInstanceId"))
    variables = to_json(body.mapping("variables"), f"{path}.variables")
    for variable, given in body.mapping("variables").items():
        if isinstance(given, dict) and given.get("local"):
            raise invalid(f"{path}.variables.{variable}.local: expected false: variables are those of the instance.")
    return command(_STARTS[kind], element, variables, _activity(body, path, "ancestorActivityInstanceId"))


def _activity(body: Body, path: str, name: str) -> Any:
    """The id of an arrival; Camunda's clients have it from the history or from a task."""
    text = body.text(name)
    if text is None:
        return None
    return as_id(text.rpartition(":")[2]) or missing(f"{path}.{name}: there is no activity instance {text}")
