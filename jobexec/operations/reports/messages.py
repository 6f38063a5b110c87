"""How many jobs wait for messages, and how many messages there are."""

from __future__ import annotations

from typing import NamedTuple

from jobexec import clock
from jobexec.models import BlockedJob, Message

from .counts import CappedCount


class MessageCounts(NamedTuple):
    """Jobs that wait for a message, messages that are kept, and those that are not delivered completely."""

    waiting: CappedCount
    kept: CappedCount
    pending: CappedCount


def message_counts(using: str) -> MessageCounts:
    """Count them, each by an index and up to :data:`~.counts.COUNT_LIMIT`."""
    messages = Message.objects.using(using)
    return MessageCounts(
        CappedCount.of(BlockedJob.objects.using(using).filter(waits_for_key__isnull=False)),
        CappedCount.of(messages.filter(expiration_time__gt=clock.now(using))),
        CappedCount.of(messages.filter(delivery_time__isnull=False)),
    )
