"""What clients of Camunda 8 ask of a modification or a start, over REST and over gRPC."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from jobexec.exceptions import InvalidJob
from jobexec.identifiers import as_id
from jobexec.models import EXTERNAL_TABLES
from jobexec.operations.external.types import Caller

from ..engine.exceptions import BadChange
from ..engine.inputs import Change, Command
from ..engine.modify import BODY
from ..models import Execution, ProcessInstance, UserTask
from ..operations.modify import command
from ..store import definitions
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
        verbs.modify(using, row, _commands_of(using, row, given))


def _commands_of(using: str, row: ProcessInstance, given: Mapping[str, Any]) -> list[Command]:
    """The commands of ``activateInstructions`` and ``terminateInstructions``: what is terminated goes first."""
    ended = given["terminateInstructions"]
    standing = _standing(using, row, [each["elementInstanceKey"] for each in ended if each["elementInstanceKey"]])
    commands = [_terminated(standing, each) for each in ended]
    commands += [_activated(using, row, each) for each in given["activateInstructions"]]
    if not commands:
        raise InvalidJob("activateInstructions, terminateInstructions: expected at least one.")
    return commands


def _terminated(standing: Mapping[int, tuple[str, UUID]], given: Mapping[str, Any]) -> Command:
    key, element = given["elementInstanceKey"], given["elementId"]
    if bool(key) == bool(element):
        raise InvalidJob("terminateInstructions: expected either elementInstanceKey or elementId.")
    if element:
        return command(Change.CANCEL, element, None)
    if key not in standing:
        raise InvalidJob(f"terminateInstructions: expected the key of an element instance of this instance, got {key}.")
    return command(Change.CANCEL, standing[key][0], None, standing[key][1])


def _standing(using: str, row: ProcessInstance, keys: Sequence[int]) -> dict[int, tuple[str, UUID]]:
    """The element and the arrival of the token of this instance that each key stands for."""
    if not keys:
        return {}
    tasks = UserTask.objects.using(using).filter(instance_id=row.pk, key__in=keys)
    owners: dict[int | None, UUID | None] = dict(tasks.values_list("key", "owner_id"))
    for table in EXTERNAL_TABLES:
        jobs = table._base_manager.using(using).filter(process_instance_id=str(row.pk), job_key__in=keys)
        owners |= {key: as_id(owner) for key, owner in jobs.values_list("job_key", "execution_id")}
    rows = Execution.objects.using(using).filter(pk__in=list(filter(None, owners.values())), instance_id=row.pk)
    tokens = {id: (element, at or id) for id, element, at in rows.values_list("pk", "element_id", "activity_id")}
    return {key: tokens[id] for key, id in owners.items() if key is not None and id in tokens}


def _activated(using: str, row: ProcessInstance, given: Mapping[str, Any]) -> Command:
    if given["ancestorElementInstanceKey"] not in (0, -1, row.key):
        raise InvalidJob("ancestorElementInstanceKey: expected none, or the key of the instance.")
    variables: dict[str, Any] = {}
    for each in given["variableInstructions"]:
        if each["scopeId"] not in ("", row.definition_key):
            raise InvalidJob("scopeId: expected none: variables are those of the instance.")
        variables |= each["variables"]
    node = definitions.process(using, row.definition_id).find(given["elementId"])
    body = BODY if node is not None and node.loop is not None else ""  # as in Zeebe, a whole multi-instance
    return command(Change.BEFORE, f"{given['elementId']}{body}", variables)
