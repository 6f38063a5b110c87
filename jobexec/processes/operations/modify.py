"""Modify running instances, and restart those that have ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from django.db import transaction

from jobexec.exceptions import InvalidJob
from jobexec.operations.audit import audited, note
from jobexec.sensitive import HIDDEN

from ..engine.inputs import Change, Command, Modified
from ..engine.tokens import Together
from ..exceptions import InstanceOver, InstanceRunning
from ..handlers.results import check_text, check_variables
from ..handlers.starting import start_instance
from ..handlers.stepping import proceed
from ..models import ProcessInstance
from ..models.instance import RUNNING
from ..store import definitions, load
from .instances import INSTANCE, LONGEST_REASON, note_instance, skipped
from .named import which


class Modification:
    """Changes of a running instance, collected; nothing happens before :meth:`execute` (Camunda: modification)."""

    def __init__(self, instance: ProcessInstance | UUID, using: str | None = None) -> None:
        self.database, self.instance = which(instance, ProcessInstance, using)
        self.commands: tuple[Command, ...] = ()

    def cancel(self, element: str, *, activity: UUID | None = None) -> Modification:
        """Cancel everything at an element, with its jobs, tasks and incidents, and a scope that is then empty.

        ``activity``: only this arrival (``Execution.activity_id``), such as one instance of a multi-instance.
        """
        return self._add(Change.CANCEL, element, None, activity)

    def start_before(
        self, element: str, variables: Mapping[str, Any] | None = None, *, inside: UUID | None = None
    ) -> Modification:
        """Start an element (asynchronously if it is asynchronous), in the running scope or in a new one.

        ``inside``: if several scopes are running, the activity that is the scope, or an enclosing one.
        """
        return self._add(Change.BEFORE, element, variables, inside)

    def start_after(
        self, element: str, variables: Mapping[str, Any] | None = None, *, inside: UUID | None = None
    ) -> Modification:
        """Continue as if an element were completed, by the flows that leave it."""
        return self._add(Change.AFTER, element, variables, inside)

    def _add(
        self, change: Change, element: str, variables: Mapping[str, Any] | None, activity: UUID | None
    ) -> Modification:
        self.commands = (*self.commands, command(change, element, variables, activity))
        return self

    def execute(self, reason: str = "", *, skip_listeners: bool = False) -> None:
        """Make all changes in one step, in the caller's transaction, in the order in which they were given.

        An instance without any tokens left is cancelled, with this ``reason``. ``skip_listeners``: call no listener
        of what these changes end and start (Camunda: skipCustomListeners). Raises InstanceOver, and
        :class:`~jobexec.processes.exceptions.StepError` if a change does not fit; then nothing has happened.
        """
        modify_instance(self.instance, self.commands, reason, skip_listeners=skip_listeners, using=self.database)


def modify(instance: ProcessInstance | UUID, *, using: str | None = None) -> Modification:
    """Modify an instance: ``modify(instance).cancel("pay").start_before("ship").execute()``."""
    return Modification(instance, using)


@audited
def modify_instance(
    instance: ProcessInstance | UUID,
    commands: Sequence[Command],
    reason: str = "",
    *,
    skip_listeners: bool = False,
    using: str | None = None,
) -> None:
    """Implementation of :meth:`Modification.execute`."""
    database, id = which(instance, ProcessInstance, using)
    if not commands:
        raise InvalidJob("commands: expected at least one change, got none.")
    check_text("reason", reason, LONGEST_REASON)
    root = load.root_of(database, id)
    with transaction.atomic(using=database):
        event = Modified(id, tuple(commands), reason, skip_listeners)
        done = proceed(database, root, event, savepoint=False) if root is not None else None
        if done is not None:
            new = {"commands": told(commands), "reason": reason} | skipped(skip_listeners)
            note_instance(database, id, new)
    if done is None:
        raise InstanceOver(f"The process instance {id} has ended, is being compensated, or does not exist.")


@audited
def restart(
    instance: ProcessInstance | UUID,
    *,
    before: str | Sequence[str] | None = None,
    after: str | Sequence[str] | None = None,
    variables: Mapping[str, Any] | None = None,
    user: str = "",
    using: str | None = None,
) -> ProcessInstance:
    """Restart an ended instance: start a new one of the same definition, with its variables and its business key.

    The new instance begins ``before`` or ``after`` elements (one id or several), or at its start event. ``variables``
    are set in addition. Pass the variables that SENSITIVE names, because they were not kept. Returns the new row.
    Raises InstanceRunning, InvalidJob for a missing variable, ProcessInstance.DoesNotExist, and what
    :func:`~jobexec.processes.start` raises.
    """
    database, id = which(instance, ProcessInstance, using)
    with transaction.atomic(using=database):
        row = ProcessInstance.objects.using(database).get(pk=id)
        if row.state in RUNNING:
            raise InstanceRunning(f"The process instance {id} is running; modify it instead.")
        found = {**_final_variables(database, row), **(variables or {})}
        if missing := sorted(name for name, value in found.items() if value == HIDDEN):
            raise InvalidJob(f"variables: expected {', '.join(missing)}, whose values were not kept (SENSITIVE).")
        commands = [
            *(command(Change.BEFORE, element, None) for element in _several(before)),
            *(command(Change.AFTER, element, None) for element in _several(after)),
        ]
        made = start_instance(
            database,
            row.definition_id,
            business_key=row.business_key,
            variables=found,
            tenant_id=row.tenant_id,
            user=user,
            commands=tuple(commands),
        )
        note(database, INSTANCE, id, new={"started": str(made.pk), "commands": told(commands)}, tenant=row.tenant_id)
        return made


def _final_variables(using: str, row: ProcessInstance) -> dict[str, Any]:
    """Those that an instance had when it ended; what the steps of a flow get may be larger than a value, as before."""
    found = dict(row.final_variables or {})
    calls = definitions.CALLS
    if calls in found and definitions.is_internal(definitions.process(using, row.definition_id), calls):
        found[calls] = Together(found[calls])
    return found


def command(change: Change, element: str, variables: Mapping[str, Any] | None, activity: UUID | None = None) -> Command:
    """A change with variables that can be stored. Raises InvalidJob."""
    if not isinstance(element, str) or not element:
        raise InvalidJob(f"element: expected the id of an element, got {element!r}.")
    given = dict(variables or {})
    check_variables(given)
    return Command(change, element, given, activity)


def _several(elements: str | Sequence[str] | None) -> Sequence[str]:
    return (elements,) if isinstance(elements, str) else elements or ()


def told(commands: Sequence[Command]) -> list[str]:
    """The commands for the audit log."""
    return [f"{each.change.value} {each.element} {each.activity or ''}".rstrip() for each in commands]
