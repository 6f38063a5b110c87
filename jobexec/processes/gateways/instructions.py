"""What clients of Camunda 8 ask of a modification, over REST and over gRPC."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from jobexec.exceptions import InvalidJob
from jobexec.operations.external.types import Caller

from ..engine.inputs import Change, Command
from ..models import Execution, ProcessInstance
from ..operations.modify import command
from . import found


def commands_of(using: str, caller: Caller, row: ProcessInstance, given: Mapping[str, Any]) -> list[Command]:
    """The commands of ``activateInstructions`` and ``terminateInstructions``: what is terminated goes first.

    Raises InvalidJob, and NotFound for the key of an element that does not stand anywhere.
    """
    commands = [_terminated(using, caller, row, each) for each in given["terminateInstructions"]]
    commands += [_activated(row, each) for each in given["activateInstructions"]]
    if not commands:
        raise InvalidJob("activateInstructions, terminateInstructions: expected at least one.")
    return commands


def _terminated(using: str, caller: Caller, row: ProcessInstance, given: Mapping[str, Any]) -> Command:
    key, element = given["elementInstanceKey"], given["elementId"]
    if bool(key) == bool(element):
        raise InvalidJob("terminateInstructions: expected either elementInstanceKey or elementId.")
    if element:
        return command(Change.CANCEL, element, None)
    scope = found.scope(using, caller, key)
    tokens = Execution.objects.using(using).filter(pk=scope.id, instance_id=row.pk)
    at: tuple[str, UUID | None] | None = tokens.values_list("element_id", "activity_id").first()
    if at is None:
        raise found.NotFound(f"Expected to find element instance with key '{key}', but no such one was found.")
    return command(Change.CANCEL, at[0], None, at[1] or scope.id)


def _activated(row: ProcessInstance, given: Mapping[str, Any]) -> Command:
    if given["ancestorElementInstanceKey"] not in (0, -1, row.key):
        raise InvalidJob("ancestorElementInstanceKey: expected none, or the key of the instance.")
    variables: dict[str, Any] = {}
    for each in given["variableInstructions"]:
        if each["scopeId"] not in ("", row.definition_key):
            raise InvalidJob("scopeId: expected none: variables are those of the instance.")
        variables |= each["variables"]
    return command(Change.BEFORE, given["elementId"], variables)
