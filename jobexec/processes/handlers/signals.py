"""Signals of models that reach beyond the call hierarchy that throws them, and messages that start processes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, TypeAlias
from uuid import UUID

from django.db.models import QuerySet

from jobexec import clock
from jobexec.models import Message
from jobexec.operations.enqueue.create import create_jobs
from jobexec.operations.values.messages import as_text

from ..engine.rows import Signal, SubscriptionKind
from ..models import EventSubscription
from ..store import definitions
from ..store.columns import key_of

#: Delivers a signal to one receiver.
DELIVER = "jobexec.processes.deliver"
_PAGE = 1_000

#: A subscription, its definition and its instance, if it is not one of a start event.
Receiver: TypeAlias = tuple[UUID, str, UUID | None]


def send_beyond(using: str, tenant: str, root: UUID | None, signals: Sequence[Signal]) -> int:
    """One small job for each receiver, so that a signal to 10,000 instances is no giant transaction.

    Receivers are those of the same tenant that wait at this moment, except those of the call hierarchy ``root``, and
    start events of the latest versions. Returns how many there are.
    """
    sent = 0
    for signal in signals:
        found = EventSubscription.objects.using(using).filter(
            kind=SubscriptionKind.SIGNAL.value, name=signal.name, tenant_id=tenant
        )
        if root is not None:
            found = found.exclude(root_id=root)
        sent += deliver_later(using, tenant, _receivers(found), variables=dict(signal.variables))
    return sent


def _receivers(rows: QuerySet[EventSubscription]) -> list[Receiver]:
    return list(rows.order_by("pk").values_list("pk", "definition_id", "instance_id"))


def deliver_later(
    using: str, tenant: str, receivers: Sequence[Receiver], *, message: Message | None = None, **arguments: Any
) -> int:
    """A job for each of these subscriptions; returns how many there are. A message stays as it is stored: encrypted."""
    common = {"handler_type": DELIVER, "tenant_id": tenant, "atomic": True}
    common |= {} if message is None else {"message": as_text(message)}
    for start in range(0, len(receivers), _PAGE):
        create_jobs(
            using,
            [
                {
                    **common,
                    "handler_configuration": {"args": [], "kwargs": {"subscription": str(pk), **arguments}},
                    "process_instance_id": str(instance or ""),
                    "process_definition_id": definition,
                    "process_definition_key": key_of(definition),
                }
                for pk, definition, instance in receivers[start : start + _PAGE]
            ],
        )
    return len(receivers)


def start_by_message(using: str, message: Message) -> None:
    """Start the processes whose start event a published message fits, each in a job; in the publisher's transaction.

    Instances that wait for it have jobs that wait for it.
    """
    starts = EventSubscription.objects.using(using).filter(
        kind=SubscriptionKind.MESSAGE.value, name=message.name, tenant_id=message.tenant_id, instance_id__isnull=True
    )
    deliver_later(using, message.tenant_id, _receivers(starts), message=message)


def deliver_again(using: str, message: Message) -> None:
    """Deliver a message to events that do not interrupt: they wait on, but the job that waited for them may be gone.

    After the commit of the publication, when no job waits for the message, in the transaction that ends its delivery.
    """
    rows = EventSubscription.objects.using(using).filter(
        kind=SubscriptionKind.MESSAGE.value, name=message.name, key=message.key, tenant_id=message.tenant_id
    )
    waiting = rows.filter(instance_id__isnull=False).order_by("pk")
    found = [
        (pk, definition, instance)
        for pk, definition, instance, element in waiting.values_list("pk", "definition_id", "instance_id", "element_id")
        if repeats(using, definition, element)
    ]
    if found:
        deliver_later(using, message.tenant_id, found, message=message)


def deliver_kept(using: str, row: EventSubscription, known: Collection[int]) -> list[int]:
    """Deliver the messages that are kept for a subscription, except the ``known``; returns their numbers."""
    kept = Message.objects.using(using).filter(
        name=row.name, key=row.key, tenant_id=row.tenant_id, expiration_time__gt=clock.now(using)
    )
    found = [message for message in kept.order_by("pk") if message.pk not in known]
    for message in found:
        receiver = (row.pk, row.definition_id, row.instance_id)
        deliver_later(using, row.tenant_id, [receiver], message=message, noted=True)
    return [message.pk for message in found]


def repeats(using: str, definition: str, element: str) -> bool:
    """Whether an event does not interrupt, so that it can happen again."""
    node = definitions.process(using, definition).find(element)
    return node is not None and not node.interrupting


def variables_of(payload: Any) -> dict[str, Any]:
    """The variables that a published message brings."""
    return payload if isinstance(payload, dict) else {"payload": payload}
