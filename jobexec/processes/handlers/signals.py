"""Signals of models that reach beyond the call hierarchy that throws them, and the jobs that deliver events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias
from uuid import UUID

from django.db.models import QuerySet

from jobexec.models import Message
from jobexec.operations.enqueue.create import create_jobs
from jobexec.operations.values.messages import as_text

from ..engine.rows import Signal, SubscriptionKind
from ..models import EventSubscription
from ..store.columns import key_of
from ..store.definitions import code_of

#: Delivers a signal or a message to one receiver.
DELIVER = "jobexec.processes.deliver"
_PAGE = 1_000

#: A subscription, its definition, its instance, if it is not one of a start event, and its element.
Receiver: TypeAlias = tuple[UUID, str, UUID | None, str]
RECEIVER = ("pk", "definition_id", "instance_id", "element_id")


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
        sent += deliver_later(using, tenant, receivers_of(found), variables=dict(signal.variables))
    return sent


def receivers_of(rows: QuerySet[EventSubscription]) -> list[Receiver]:
    return list(rows.order_by("pk").values_list(*RECEIVER))


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
                    "failed_activity_id": element,
                    **code_of(using, definition),
                }
                for pk, definition, instance, element in receivers[start : start + _PAGE]
            ],
        )
    return len(receivers)
