"""Query jobexec's suspensions for definitions and instances instead of jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from uuid import UUID

from django.db import connections
from django.db.models import Q, QuerySet

from jobexec import clock
from jobexec.identifiers import as_id
from jobexec.models import Suspension, SuspensionScope
from jobexec.models.suspension import joined, parts_of
from jobexec.operations.rows.suspension_cover import IN_FORCE, in_force

from ..exceptions import Suspended
from ..models import ProcessDefinition, ProcessInstance, UserTask
from .columns import key_of
from .lock import at_once

_KNOWN = f"SELECT EXISTS (SELECT 1 FROM {ProcessDefinition._meta.db_table} WHERE id = %(id)s)"


def known_and_free(using: str, definition: str) -> tuple[bool, bool]:
    """Whether there is a definition with this id, and whether no suspension at all is in force.

    Each start of a flow asks for both. The second is False also where it would take another statement.
    """
    if not at_once(using):
        return ProcessDefinition.objects.using(using).filter(pk=definition).exists(), False
    with connections[using].cursor() as cursor:
        cursor.execute(f"{_KNOWN}, NOT {IN_FORCE}", {"id": definition, "now": clock.now(using)})
        known, free = cursor.fetchone()
    return bool(known), bool(free)


def refuse_start(using: str, definition: str, tenant: str) -> None:
    """Raise Suspended if no instance of this definition may be started for this tenant."""
    found = refusal_of_start(using, definition, tenant)
    if found is not None:
        raise Suspended(f"No instance of {definition} can be started: {named(found)} is suspended.")


def refusal_of_start(using: str, definition: str, tenant: str) -> Suspension | None:
    """The suspension that keeps instances of a definition from being started now, or None."""
    if at_once(using) and not _is_any(using):
        return None
    return in_force(using).filter(_of_definition(definition, tenant)).first()


def _is_any(using: str) -> bool:
    """Whether any suspension is in force. To ask the ORM for one of some scopes takes 0.5 ms longer."""
    with connections[using].cursor() as cursor:
        cursor.execute(f"SELECT {IN_FORCE}", {"now": clock.now(using)})
        (found,) = cursor.fetchone()
    return bool(found)


def refuse_step(using: str, instance: UUID) -> None:
    """Raise Suspended if an instance is suspended, so that no call from outside continues it."""
    row = ProcessInstance.objects.using(using).filter(pk=instance).values_list("definition_id", "tenant_id").first()
    found = None if row is None else suspension_of(using, instance, *row)
    if found is not None:
        raise Suspended(f"The process instance {instance} cannot go on: {named(found)} is suspended.")


def suspension_of(using: str, instance: UUID, definition: str, tenant: str) -> Suspension | None:
    """One that covers an instance now, or None."""
    return covering(using, instance, definition, tenant).first()


def covering(using: str, instance: UUID, definition: str, tenant: str) -> QuerySet[Suspension]:
    """All suspensions that cover an instance now."""
    own = Q(scope=SuspensionScope.PROCESS_INSTANCE.value, value=str(instance))
    # A suspension that leaves the instances alone only keeps new ones from being started.
    of_definition = _of_definition(definition, tenant) & Q(include_jobs=True)
    return in_force(using).filter(own | of_definition)


def suspended(using: str, rows: Sequence[ProcessInstance | UserTask]) -> dict[UUID, datetime]:
    """The ids of the instances, of these or with these tasks, that a suspension covers now, and since when."""
    places = {
        (row.pk if isinstance(row, ProcessInstance) else row.instance_id, row.definition_id, row.tenant_id)
        for row in rows
    }
    found = _scopes(in_force(using).filter(include_jobs=True), [str(id) for id, _, _ in places])
    of_one = found[SuspensionScope.PROCESS_INSTANCE]
    moments = {
        id: [of_one[str(id)]] if str(id) in of_one else _since(found, definition, key_of(definition), tenant)
        for id, definition, tenant in places
    }
    return {id: min(since) for id, since in moments.items() if since}


def suspended_definitions(using: str, rows: Sequence[ProcessDefinition]) -> set[str]:
    """Those of the definitions of which no instance can be started now."""
    found = _scopes(in_force(using), [])
    return {row.pk for row in rows if _since(found, row.pk, row.key, row.tenant_id)}


def suspended_rows(using: str) -> Q:
    """The condition on instances that a suspension covers now."""
    found = _scopes(in_force(using).filter(include_jobs=True))
    # Others are names that ordinary jobs have for their process instances.
    of_one = Q(pk__in=[id for value in found[SuspensionScope.PROCESS_INSTANCE] if (id := as_id(value)) is not None])
    return of_one | _condition(found, "definition_id", "definition_key")


def suspended_definition_rows(using: str) -> Q:
    """The condition on definitions of which no instance can be started now."""
    return _condition(_scopes(in_force(using), []), "pk", "key")


_Scopes = Mapping[str, Mapping[str, datetime]]


def _scopes(rows: QuerySet[Suspension], instances: Sequence[str] | None = None) -> _Scopes:
    """The values of each scope that covers processes, with their beginning; of instances only these, if given."""
    single = SuspensionScope.PROCESS_INSTANCE.value
    wanted = Q(scope__in=_OF_DEFINITIONS)
    wanted |= Q(scope=single) if instances is None else Q(scope=single, value__in=instances)
    found: dict[str, dict[str, datetime]] = {scope: {} for scope in (*_OF_DEFINITIONS, single)}
    for scope, value, at, created in rows.filter(wanted).values_list("scope", "value", "suspend_time", "create_time"):
        found[scope][value] = at or created
    return found


_OF_DEFINITIONS = (
    SuspensionScope.PROCESS_DEFINITION_VERSION.value,
    SuspensionScope.PROCESS_DEFINITION.value,
    SuspensionScope.TENANT_PROCESS_DEFINITION.value,
    SuspensionScope.TENANT.value,
)


def _since(found: _Scopes, definition: str, key: str, tenant: str) -> list[datetime]:
    values = zip(_OF_DEFINITIONS, (definition, key, joined(tenant, key), tenant), strict=True)
    return [found[scope][value] for scope, value in values if value in found[scope]]


def _condition(found: _Scopes, definition: str, key: str) -> Q:
    version, process, pair, tenant = (sorted(found[scope]) for scope in _OF_DEFINITIONS)
    wanted = Q(**{f"{definition}__in": version}) | Q(**{f"{key}__in": process}) | Q(tenant_id__in=tenant)
    for value in pair:
        parts = parts_of(SuspensionScope.TENANT_PROCESS_DEFINITION, value)
        wanted |= Q(**{key: parts["process_definition_key"], "tenant_id": parts["tenant_id"]})
    return wanted


def _of_definition(definition: str, tenant: str) -> Q:
    key = key_of(definition)
    values = dict(zip(_OF_DEFINITIONS, (definition, key, joined(tenant, key), tenant), strict=True))
    wanted = Q()
    for scope, value in values.items():
        if value:  # no suspension is of no tenant
            wanted |= Q(scope=scope, value=value)
    return wanted


def named(found: Suspension) -> str:
    """Name the suspended scope, for a sentence."""
    return f"the {SuspensionScope(found.scope).name.lower().replace('_', ' ')} {found.shown_value}"
