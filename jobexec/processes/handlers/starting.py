"""The start of an instance."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from jobexec import clock
from jobexec.conf.messages import TENANT_LENGTH
from jobexec.identifiers import uuid7
from jobexec.operations.sql.server_time import keep_time

from ..engine.inputs import Command, Start
from ..models import EventSubscription, ProcessInstance
from ..store import definitions
from ..store.columns import key_of
from ..store.suspensions import refuse_start
from .results import check_text, check_variables
from .stepping import begin


def start_instance(
    using: str,
    definition: str,
    *,
    element: str | None = None,
    business_key: str = "",
    variables: dict[str, Any] | None = None,
    tenant_id: str = "",
    user: str = "",
    awaited: UUID | None = None,
    commands: tuple[Command, ...] = (),
    free: bool = False,
) -> ProcessInstance:
    """Start an instance in the caller's transaction, and take its first step. Returns its row.

    ``awaited`` is the id that the instance gets, and under which its end is announced to the gateways. With
    ``commands`` it begins where these say, instead of at a start event. ``free``: no suspension is in force.
    """
    given = dict(variables or {})
    check_variables(given)
    key: Any = business_key
    business_key = str(key) if isinstance(key, int | UUID) else key
    check_text("business_key", business_key)
    check_text("tenant_id", tenant_id, TENANT_LENGTH)
    check_text("user", user)
    if not commands and (initiator := _initiator(using, definition, element)) is not None:
        given[initiator] = user
    keep_time(using)
    if not free:
        refuse_start(using, definition, tenant_id)
    id = awaited or uuid7()
    origin = ProcessInstance(
        id=id,
        root_id=id,
        definition_id=definition,
        definition_key=key_of(definition),
        business_key=business_key,
        tenant_id=tenant_id,
        start_time=clock.now(using),
        start_user=user,
        awaited=awaited is not None,
    )
    origin._state.db = using
    begin(using, origin, Start(id, definition, element, business_key or None, given, commands))
    return origin


def _initiator(using: str, definition: str, element: str | None) -> str | None:
    """The variable that gets the name of the user who starts an instance (``camunda:initiator``)."""
    process = definitions.process(using, definition)
    node = process.find(element) if element else process.start_event(None)
    return node.initiator if node is not None else None


def start_by_event(
    using: str, row: EventSubscription, variables: dict[str, Any], business_key: str = ""
) -> ProcessInstance:
    """Start an instance at the start event that a subscription is of."""
    return start_instance(
        using,
        row.definition_id,
        element=row.element_id,
        business_key=business_key,
        variables=variables,
        tenant_id=row.tenant_id,
    )
