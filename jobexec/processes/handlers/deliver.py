"""Deliver a message or a signal to one that waits for it."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from ..engine.inputs import Triggered
from ..models import EventSubscription
from ..store import definitions
from .starting import start_by_event
from .stepping import proceed


def deliver(using: str, subscription: UUID, variables: dict[str, Any], business_key: str = "") -> UUID | None:
    """A step of the instance that waits, or the start of one; its id, or None if it does not wait any more."""
    row = EventSubscription.objects.using(using).filter(pk=subscription).first()
    if row is None:
        return None
    owner = row.owner_id
    if row.root_id is None or owner is None:
        return start_by_event(using, row, variables, business_key).pk

    def event(tokens: Any) -> Triggered | None:
        if row.pk not in tokens.subscriptions:
            return None
        return Triggered(owner, row.element_id, row.activity_id, payload_of(using, row, variables))

    return None if proceed(using, row.root_id, event) is None else row.instance_id


def payload_of(using: str, row: EventSubscription, variables: dict[str, Any]) -> dict[str, Any]:
    """The variables of a message as those of its receiver: a flow has them all in the result of its wait."""
    node = definitions.process(using, row.definition_id).find(row.element_id)
    name = node.properties.get("payload") if node is not None else None
    return {name: variables} if name else variables
