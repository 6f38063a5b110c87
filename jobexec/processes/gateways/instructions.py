"""What clients of Camunda 8 ask of a modification or a start, over REST and over gRPC."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from jobexec.exceptions import InvalidJob
from jobexec.operations.external.types import Caller

from ..engine.exceptions import BadChange
from ..engine.inputs import Change, Command
from ..models import Execution, ProcessInstance
from ..operations.modify import command
from . import found, verbs


@contextmanager
def invalid_unless_fitting() -> Iterator[None]:
    """An instruction that does not fit is an invalid argument, as in Zeebe; not so what the process does then.

    Raises InvalidJob.
    """
    try:
        yield
    except BadChange as error:
        raise InvalidJob(str(error)) from error


def modify(using: str, caller: Caller, key: int, given: Mapping[str, Any]) -> None:
    """Modify an instance. Raises NotFound for the instance, and InvalidJob for an instruction that does not fit."""
    row = found.instance(using, caller, key)
    with invalid_unless_fitting():
        verbs.modify(using, row, _commands_of(using, caller, row, given))


def _commands_of(using: str, caller: Caller, row: ProcessInstance, given: Mapping[str, Any]) -> list[Command]:
    """The commands of ``activateInstructions`` and ``terminateInstructions``: what is terminated goes first."""
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
    id, at = _standing(using, caller, row, key)
    if at is None:
        raise InvalidJob(f"terminateInstructions: expected the key of an element instance of this instance, got {key}.")
    return command(Change.CANCEL, at[0], None, at[1] or id)


def _standing(
    using: str, caller: Caller, row: ProcessInstance, key: int
) -> tuple[UUID | None, tuple[str, UUID | None] | None]:
    """The id, the element and the arrival of the token of this instance that a key stands for."""
    try:
        scope = found.scope(using, caller, key)
    except found.NotFound:
        return None, None
    tokens = Execution.objects.using(using).filter(pk=scope.id, instance_id=row.pk)
    return scope.id, tokens.values_list("element_id", "activity_id").first()


def _activated(row: ProcessInstance, given: Mapping[str, Any]) -> Command:
    if given["ancestorElementInstanceKey"] not in (0, -1, row.key):
        raise InvalidJob("ancestorElementInstanceKey: expected none, or the key of the instance.")
    variables: dict[str, Any] = {}
    for each in given["variableInstructions"]:
        if each["scopeId"] not in ("", row.definition_key):
            raise InvalidJob("scopeId: expected none: variables are those of the instance.")
        variables |= each["variables"]
    return command(Change.BEFORE, given["elementId"], variables)
