"""Publish messages for clients of the gateways."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from jobexec.conf import get_settings
from jobexec.exceptions import MessageExists, NotAllowed
from jobexec.models import Message

from ..messages.publish import NO_KEY, publish_message
from .types import EVERYTHING, Caller


def publish_external_message(
    using: str,
    name: str,
    key: str,
    *,
    variables: Mapping[str, Any] | None,
    ttl: timedelta,
    message_id: str | None = None,
    tenant_id: str = "",
    caller: Caller = EVERYTHING,
) -> Message:
    """Publish a message as Zeebe does: its payload is an object, and a known message id is an error.

    Without a key it only starts processes. A longer ``ttl`` than MESSAGE_MAX_TTL is cut. Raises
    :class:`~jobexec.exceptions.NotAllowed` for a tenant that the caller may not see,
    :class:`~jobexec.exceptions.MessageExists`, and the errors of ``publish_message``.
    """
    if not caller.may_see(tenant_id):
        raise NotAllowed(f"The client {caller.name!r} may not publish messages of the tenant {tenant_id!r}.")
    row = publish_message(
        name,
        key=key or NO_KEY,
        payload=dict(variables or {}),
        ttl=min(ttl, get_settings().message_max_ttl),
        message_id=message_id,
        tenant_id=tenant_id,
        using=using,
    )
    if row.is_duplicate:
        raise MessageExists(f"A message with the id {message_id!r} is already kept for this name and key.")
    return row
