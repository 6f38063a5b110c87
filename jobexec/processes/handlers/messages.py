"""Messages that are published: they start processes, and reach the events that wait for them."""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from jobexec import clock
from jobexec.models import Message
from jobexec.operations.values.messages import ReceivedMessage

from ..engine.rows import SubscriptionKind
from ..models import EventSubscription
from ..store import definitions
from .deliver import deliver, received_by
from .signals import RECEIVER, deliver_later, receivers_of


def start_by_message(using: str, message: Message) -> None:
    """Start the processes whose start event a published message fits, each in a job; in the publisher's transaction.

    Instances that wait for it have jobs that wait for it.
    """
    starts = EventSubscription.objects.using(using).filter(
        kind=SubscriptionKind.MESSAGE.value, name=message.name, tenant_id=message.tenant_id, instance_id__isnull=True
    )
    deliver_later(using, message.tenant_id, receivers_of(starts), message=message)


def deliver_again(using: str, message: Message) -> None:
    """Deliver a message to events that do not interrupt: they wait on, but the job that waited for them may be gone.

    After the commit of the publication, when no job waits for the message, in the transaction that ends its delivery.
    """
    rows = EventSubscription.objects.using(using).filter(
        kind=SubscriptionKind.MESSAGE.value, name=message.name, key=message.key, tenant_id=message.tenant_id
    )
    waiting = rows.filter(instance_id__isnull=False).order_by("pk")
    found = [row for row in waiting.values_list(*RECEIVER) if _repeats(using, definition=row[1], element=row[3])]
    if found:
        deliver_later(using, message.tenant_id, found, message=message)


def receive(using: str, subscription: UUID, message: ReceivedMessage) -> None:
    """The job that waited for the first message of a subscription has it.

    An event that does not interrupt goes on without such a job. It now also receives the other messages that were kept
    when it began to wait; later ones come by :func:`deliver_again`.
    """
    rows = EventSubscription.objects.using(using).filter(pk=subscription)
    row = rows.first()
    if row is None:
        return
    if not _repeats(using, row.definition_id, row.element_id):
        deliver(using, subscription, message.payload)
        return
    deliver(using, subscription, message.payload, number=message.number)
    found = received_by(rows)
    if found is not None:
        kept = _deliver_kept(using, row, found["numbers"])
        rows.update(received={"waiting": False, "numbers": [*found["numbers"], *kept]})


def _deliver_kept(using: str, row: EventSubscription, known: Collection[int]) -> list[int]:
    """Deliver the messages that are kept for a subscription, except the ``known``; returns their numbers."""
    kept = Message.objects.using(using).filter(
        name=row.name, key=row.key, tenant_id=row.tenant_id, expiration_time__gt=clock.now(using)
    )
    found = [message for message in kept.order_by("pk") if message.pk not in known]
    for message in found:
        receiver = (row.pk, row.definition_id, row.instance_id, row.element_id)
        deliver_later(using, row.tenant_id, [receiver], message=message, noted=True)
    return [message.pk for message in found]


def _repeats(using: str, definition: str, element: str) -> bool:
    """Whether an event does not interrupt, so that it can happen again."""
    node = definitions.process(using, definition).find(element)
    return node is not None and not node.interrupting
