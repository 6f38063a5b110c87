"""What is suspended: jobexec's suspensions, asked for definitions and instances instead of jobs."""

from __future__ import annotations

from uuid import UUID

from django.db.models import Q

from jobexec.models import Suspension, SuspensionScope
from jobexec.models.suspension import joined
from jobexec.operations.rows.suspension_cover import in_force

from ..exceptions import Suspended
from ..models import ProcessInstance
from .columns import key_of


def refuse_start(using: str, definition: str, tenant: str) -> None:
    """Raise Suspended if no instance of this definition may be started for this tenant."""
    found = in_force(using).filter(_of_definition(definition, tenant)).first()
    if found is not None:
        raise Suspended(f"No instance of {definition} can be started: {named(found)} is suspended.")


def refuse_step(using: str, instance: UUID) -> None:
    """Raise Suspended if an instance is, so that nobody outside can carry it on."""
    row = ProcessInstance.objects.using(using).filter(pk=instance).values_list("definition_id", "tenant_id").first()
    found = None if row is None else suspension_of(using, instance, *row)
    if found is not None:
        raise Suspended(f"The process instance {instance} cannot go on: {named(found)} is suspended.")


def suspension_of(using: str, instance: UUID, definition: str, tenant: str) -> Suspension | None:
    """One that covers an instance now, or None."""
    own = Q(scope=SuspensionScope.PROCESS_INSTANCE.value, value=str(instance))
    # A suspension that leaves the instances alone only keeps new ones from being started.
    of_definition = _of_definition(definition, tenant) & Q(include_jobs=True)
    return in_force(using).filter(own | of_definition).first()


def _of_definition(definition: str, tenant: str) -> Q:
    key = key_of(definition)
    scopes = {
        SuspensionScope.PROCESS_DEFINITION_VERSION: definition,
        SuspensionScope.PROCESS_DEFINITION: key,
        SuspensionScope.TENANT_PROCESS_DEFINITION: joined(tenant, key),
    }
    if tenant:
        scopes[SuspensionScope.TENANT] = tenant
    wanted = Q()
    for scope, value in scopes.items():
        wanted |= Q(scope=scope.value, value=value)
    return wanted


def named(found: Suspension) -> str:
    """What is suspended, for a sentence."""
    return f"the {SuspensionScope(found.scope).name.lower().replace('_', ' ')} {found.shown_value}"
