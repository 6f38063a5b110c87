"""Deliver a message or a signal to one that waits for it."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from ..engine.inputs import Triggered
from ..models import EventSubscription
from ..store import definitions
from ..store.suspensions import refuse_step
from .starting import start_by_event
from .stepping import proceed


def deliver(
    using: str, subscription: UUID, variables: dict[str, Any], business_key: str = "", *, by_job: bool = True
) -> UUID | None:
    """A step of the instance that waits, or the start of one; its id, or None if it does not wait any more.

    The jobs of an instance that is suspended are held. Any other caller gets Suspended.
    """
    row = EventSubscription.objects.using(using).filter(pk=subscription).first()
    if row is None:
        return None
    owner, instance = row.owner_id, row.instance_id
    if row.root_id is None or owner is None or instance is None:
        return start_by_event(using, row, variables, business_key).pk

    def event(tokens: Any) -> Triggered | None:
        if row.pk not in tokens.subscriptions:
            return None
        if not by_job:
            refuse_step(using, instance)
        return Triggered(owner, row.element_id, row.activity_id, payload_of(using, row, variables))

    return None if proceed(using, row.root_id, event) is None else row.instance_id


def payload_of(using: str, row: EventSubscription, variables: dict[str, Any]) -> dict[str, Any]:
    """The variables of a message as those of its receiver: a flow has them all in the result of its wait."""
    node = definitions.process(using, row.definition_id).find(row.element_id)
    name = node.properties.get("payload") if node is not None else None
    return {name: variables} if name else variables
