"""Signals of models that reach beyond the call hierarchy that throws them, and messages that start processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from django.db.models import QuerySet

from jobexec.encryption import unseal_payload
from jobexec.models import Message
from jobexec.operations.enqueue.create import create_jobs

from ..engine.rows import Signal, SubscriptionKind
from ..models import EventSubscription
from ..store.columns import key_of

#: Delivers a signal to one receiver.
DELIVER = "jobexec.processes.deliver"
_PAGE = 1_000


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
        sent += deliver_later(using, tenant, found, signal.variables)
    return sent


def deliver_later(using: str, tenant: str, receivers: QuerySet[EventSubscription], variables: Mapping[str, Any]) -> int:
    """A job for each of these subscriptions; returns how many there are."""
    ids = list(receivers.order_by("pk").values_list("pk", "definition_id", "instance_id"))
    for start in range(0, len(ids), _PAGE):
        create_jobs(
            using,
            [
                {
                    "handler_type": DELIVER,
                    "handler_configuration": {
                        "args": [],
                        "kwargs": {"subscription": str(pk), "variables": dict(variables)},
                    },
                    "process_instance_id": str(instance or ""),
                    "process_definition_id": definition,
                    "process_definition_key": key_of(definition),
                    "tenant_id": tenant,
                    "atomic": True,
                }
                for pk, definition, instance in ids[start : start + _PAGE]
            ],
        )
    return len(ids)


def start_by_message(using: str, message: Message) -> None:
    """Start the processes whose start event a published message fits, each in a job; in the publisher's transaction.

    Instances that wait for it have jobs that wait for it.
    """
    starts = EventSubscription.objects.using(using).filter(
        kind=SubscriptionKind.MESSAGE.value, name=message.name, tenant_id=message.tenant_id, instance_id__isnull=True
    )
    payload = unseal_payload(message.payload, message.pk)
    deliver_later(using, message.tenant_id, starts, payload if isinstance(payload, dict) else {"payload": payload})
