"""Cancel instances, and change their variables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.db import transaction

from jobexec.models import DeadLetterJob
from jobexec.operations import set_retries as set_retries_of_jobs
from jobexec.operations.audit import audited, note

from ..engine.inputs import Cancelled
from ..exceptions import InstanceOver
from ..handlers.results import check_text, check_variables
from ..handlers.stepping import change_variables, proceed
from ..models import ProcessInstance
from ..store import load
from .named import tenant_of, which

#: The type of a process instance in the audit log.
INSTANCE = "processinstance"
LONGEST_REASON = 4_000


def note_instance(using: str, id: UUID, new: Mapping[str, Any]) -> None:
    """Record an operator's action on an instance in the audit log, in the same transaction."""
    note(using, INSTANCE, id, new=new, tenant=tenant_of(ProcessInstance, using, id))


def skipped(listeners: bool) -> dict[str, bool]:
    """How the audit log records that an operator skipped listeners."""
    return {"skip_listeners": True} if listeners else {}


@audited
def cancel(
    instance: ProcessInstance | UUID, reason: str = "", *, skip_listeners: bool = False, using: str | None = None
) -> None:
    """Cancel an instance, and the instances that it called. A flow first compensates its steps, last first.

    Functions that run outside of the step are asked to stop: they see ``context.cancelled``. Their results are not
    taken, and a step that ends only then is not compensated.

    ``skip_listeners``: do not call the listeners to the end of what is cancelled, for example because one of them
    always fails (Camunda: skipCustomListeners). Raises InstanceOver if the instance has ended. Raises it, too, if
    another instance called it: cancel that one. Raises UncaughtError if a listener throws a business error, and
    StepError if the arguments of a compensation cannot be computed; then nothing has happened.
    """
    database, id = which(instance, ProcessInstance, using)
    check_text("reason", reason, LONGEST_REASON)
    with transaction.atomic(using=database):
        done = proceed(database, id, Cancelled(id, reason, skip_listeners))
        if done is not None:
            note_instance(database, id, {"reason": reason} | skipped(skip_listeners))
    if done is None:
        raise InstanceOver(f"The process instance {id} has ended, does not exist, or was called by another one.")


@audited
def set_retries(
    instance: ProcessInstance | UUID, retries: int = 1, *, element: str | None = None, using: str | None = None
) -> int:
    """Requeue the dead letters of an instance, or of one of its elements, with this number of retries.

    Closes their incidents. Returns the number of dead letters. Raises InvalidJob for an invalid number of retries.
    """
    database, id = which(instance, ProcessInstance, using)
    dead = DeadLetterJob.objects.using(database).filter(process_instance_id=str(id))
    if element is not None:
        dead = dead.filter(failed_activity_id=element)
    found = set_retries_of_jobs(list(dead.order_by("pk").values_list("pk", flat=True)), retries, using=database)
    return len(found.changed)


@audited
def set_variables(instance: ProcessInstance | UUID, variables: Mapping[str, Any], *, using: str | None = None) -> None:
    """Set variables of a running instance, while no step of the instance runs. Raises InstanceOver."""
    database, id = which(instance, ProcessInstance, using)
    given = dict(variables)
    check_variables(given)
    root = load.root_of(database, id)
    with transaction.atomic(using=database):
        done = root is not None and change_variables(database, root, id, given)
        if done:
            note_instance(database, id, given)
    if not done:
        raise InstanceOver(f"The process instance {id} has ended or does not exist.")
