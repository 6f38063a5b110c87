"""Deliver a message or a signal to one that waits for it."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db.models import QuerySet

from jobexec.operations.sql.locks import lock_rows

from ..engine.inputs import Triggered
from ..models import EventSubscription
from ..store import definitions
from ..store.suspensions import refuse_step
from .starting import start_by_event
from .stepping import proceed


def deliver(
    using: str,
    subscription: UUID,
    payload: Any,
    business_key: str = "",
    *,
    by_job: bool = True,
    number: int | None = None,
) -> UUID | None:
    """A step of the instance that waits, or the start of one; its id, or None if it does not wait any more.

    ``payload`` is that of a message, or an object of variables. The jobs of an instance that is suspended are held. Any
    other caller gets Suspended. ``number`` is that of a message that an event which does not interrupt may be given
    twice: it receives the message once.
    """
    row = EventSubscription.objects.using(using).filter(pk=subscription).first()
    if row is None:
        return None
    owner, instance = row.owner_id, row.instance_id
    if row.root_id is None or owner is None or instance is None:
        return start_by_event(using, row, variables_of(payload), business_key).pk

    def event(tokens: Any) -> Triggered | None:
        if not tokens.has_subscription(row.pk) or (number is not None and not _is_new(using, row.pk, number)):
            return None
        if not by_job:
            refuse_step(using, instance)
        return Triggered(owner, row.element_id, row.activity_id, _brought(using, row, payload))

    return None if proceed(using, row.root_id, event, owner) is None else row.instance_id


def _is_new(using: str, subscription: UUID, number: int) -> bool:
    """Whether a subscription has not received a message, which it now does; in a step of its instance.

    As long as a job waits for its first message, that can be given any message that others are given, too: so they are
    all noted. When this job has run, those that it was given are known, and any other message comes only once.
    """
    rows = EventSubscription.objects.using(using).filter(pk=subscription)
    found = received_by(rows) or {"waiting": True, "numbers": []}
    if number in found["numbers"]:
        return False
    if found["waiting"]:
        rows.update(received={"waiting": True, "numbers": [*found["numbers"], number]})
    return True


def received_by(rows: QuerySet[EventSubscription]) -> dict[str, Any] | None:
    """What a row says now: its instance is locked, but this transaction may read a snapshot that is older."""
    return lock_rows(rows, no_key=True).values_list("received", flat=True).first()


def variables_of(payload: Any) -> dict[str, Any]:
    """The variables that a published message brings: what is no object is the variable ``payload``."""
    if payload is None:
        return {}
    return payload if isinstance(payload, dict) else {"payload": payload}


def _brought(using: str, row: EventSubscription, payload: Any) -> dict[str, Any]:
    """The payload of a message as variables of its receiver: in a flow it is the result of the wait."""
    node = definitions.process(using, row.definition_id).find(row.element_id)
    name = node.properties.get("payload") if node is not None else None
    return {name: payload} if name else variables_of(payload)
