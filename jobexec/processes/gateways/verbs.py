"""Verbs of clients on processes, each in a transaction, subject to the policy and recorded in the audit log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from django.db import transaction

from jobexec.conf.messages import check_text
from jobexec.exceptions import InvalidJob, NotAllowed
from jobexec.json_values import check_storable
from jobexec.operations.audit import audited, note
from jobexec.operations.external.types import Caller
from jobexec.operations.history.keys import next_keys

from ..engine.inputs import Command
from ..exceptions import InstanceOver, MismatchingMessage
from ..handlers.results import check_variables
from ..handlers.stepping import change_variables
from ..models import ProcessDefinition, ProcessInstance
from ..operations import events, instances
from ..operations import modify as modifying
from ..operations.deploy import Deployed, deployed
from ..operations.start import start_definition
from . import found

#: Files of one deployment, and bytes of one call with files: as many as one message over gRPC may have.
MOST_FILES, MOST_BYTES = 100, 8 * 1024 * 1024
#: Instructions of one modification, or of one start.
MOST_COMMANDS = 1_000
_MOST_KEY, _MOST_TENANT, _MOST_FILE = 255, 64, 255
_ENDINGS = (".bpmn", ".bpmn20.xml", ".xml")


def deploy_files(using: str, files: Sequence[tuple[str, bytes]], **given: Any) -> list[Deployed]:
    """:func:`deploy`, with the names of the files as what a policy is asked about."""
    return deploy(using, ", ".join(name for name, _ in files)[:_MOST_FILE], files=files, **given)


@audited
def deploy(
    using: str,
    target: str,
    *,
    files: Sequence[tuple[str, bytes]],
    tenant_id: str = "",
    name: str = "",
    user: str = "",
    caller: Caller,
) -> list[Deployed]:
    """Deploy BPMN files: all of them, or none. Raises InvalidJob and InvalidProcess."""
    _check_tenant(caller, tenant_id)
    if not files:
        raise InvalidJob("resources: expected at least one file, got none.")
    if len(files) > MOST_FILES:
        raise InvalidJob(f"resources: expected at most {MOST_FILES} files, got {len(files)}.")
    for file, _ in files:
        check_text("name", file, _MOST_FILE)
        if not file.lower().endswith(_ENDINGS):
            raise InvalidJob(f"{file}: expected a BPMN file, whose name ends in {' or '.join(_ENDINGS)}.")
    check_storable("name", name)
    return deployed(using, *files, name=name[:255], source="gateway", tenant_id=tenant_id, user=user)


@audited
def start_process(
    using: str,
    definition: ProcessDefinition,
    variables: Mapping[str, Any] | None = None,
    *,
    business_key: str = "",
    awaited: UUID | None = None,
    user: str = "",
    commands: Sequence[Command] = (),
) -> ProcessInstance:
    """Start an instance, in the tenant of its definition; with ``commands`` where these say."""
    _check_number(commands)
    if len(business_key) > _MOST_KEY:
        raise InvalidJob(f"businessKey: expected at most {_MOST_KEY} characters, got {len(business_key)}.")
    check_storable("businessKey", business_key)
    with transaction.atomic(using=using):
        row = start_definition(
            using,
            definition,
            business_key=business_key,
            variables=variables,
            user=user,
            awaited=awaited,
            commands=tuple(commands),
        )
        told: dict[str, Any] = {"definition": definition.pk, "business_key": business_key}
        told |= {"commands": modifying.told(commands)} if commands else {}
        note(using, instances.INSTANCE, row.pk, new=told, tenant=row.tenant_id)
    return row


def cancel(using: str, row: ProcessInstance, reason: str = "", *, skip_listeners: bool = False) -> None:
    """Raises InstanceOver if it has ended, or was called by another one."""
    check_storable("reason", reason)
    instances.cancel(row, reason[: instances.LONGEST_REASON], skip_listeners=skip_listeners, using=using)


def modify(
    using: str, row: ProcessInstance, commands: Sequence[Command], reason: str = "", *, skip_listeners: bool = False
) -> None:
    """Modify an instance in one step. Raises InstanceOver, and StepError for what does not fit."""
    check_storable("reason", reason)
    _check_number(commands)
    told = reason[: instances.LONGEST_REASON]
    modifying.modify_instance(row, commands, told, skip_listeners=skip_listeners, using=using)


def _check_number(commands: Sequence[Command]) -> None:
    if len(commands) > MOST_COMMANDS:
        raise InvalidJob(f"instructions: expected at most {MOST_COMMANDS}, got {len(commands)}.")


@audited
def set_variables(
    using: str, instance: UUID, variables: Mapping[str, Any], *, scope: found.Scope, local: bool = False
) -> int:
    """Set variables where a scope finds them, or with ``local`` in this very scope. Returns the key of the change."""
    given = dict(variables)
    check_variables(given)
    with transaction.atomic(using=using):
        if not change_variables(using, scope.root, scope.id, given, local=local):
            raise InstanceOver(f"The process instance {instance} has ended, or its element has.")
        note(using, instances.INSTANCE, instance, new=given, tenant=scope.tenant)
    return next_keys(using, 1)[0]


@audited
def broadcast_signal(
    using: str, name: str, variables: Mapping[str, Any] | None = None, *, tenant_id: str = "", caller: Caller
) -> int:
    """Throw a signal to all of a tenant that wait for it; returns the key of the signal."""
    _check_tenant(caller, tenant_id)
    check_text("signalName", name, _MOST_KEY)
    with transaction.atomic(using=using):
        count = events.signal(name, variables, tenant_id=tenant_id, using=using)
        note(using, "signal", name, new={"receivers": count}, tenant=tenant_id)
    return next_keys(using, 1)[0]


@audited
def correlate_message(
    using: str,
    name: str,
    *,
    key: str | None = None,
    business_key: str | None = None,
    instance: UUID | None = None,
    match: Mapping[str, Any] | None = None,
    variables: Mapping[str, Any] | None = None,
    all: bool = False,
    tenant_id: str = "",
    caller: Caller,
) -> list[ProcessInstance]:
    """Deliver a message now. Returns the instances that have got it; raises MismatchingMessage."""
    _check_tenant(caller, tenant_id)
    check_text("name", name, _MOST_KEY)
    with transaction.atomic(using=using):
        ids = events.correlated(
            using,
            name,
            key=key,
            business_key=business_key,
            instance=instance,
            match=match,
            variables=variables,
            all=all,
            tenant_id=tenant_id,
        )
        note(using, "message", name, new={"instances": [str(id) for id in ids[:100]]}, tenant=tenant_id)
        rows = ProcessInstance.objects.using(using).in_bulk(ids)
    if not ids and all:
        raise MismatchingMessage(f"The message {name!r} matches no instance that waits for it.")
    return [rows[id] for id in ids if id in rows]


def check_user(name: str) -> None:
    """Raise InvalidJob for a name that cannot be an assignee's."""
    check_text("assignee", name, _MOST_KEY)


def _check_tenant(caller: Caller, tenant_id: str) -> None:
    if len(tenant_id) > _MOST_TENANT:
        raise InvalidJob(f"tenantId: expected at most {_MOST_TENANT} characters, got {len(tenant_id)}.")
    check_storable("tenantId", tenant_id)
    if not caller.may_see(tenant_id):
        raise NotAllowed(f"The client {caller.name!r} may not act for the tenant {tenant_id!r}.")
