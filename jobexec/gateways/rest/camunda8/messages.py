"""Publish a message for the jobs that wait for it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django.http import HttpRequest, HttpResponse

from jobexec.gateways import zeebe_format
from jobexec.gateways.rest.common import caller_of, database, json_answer
from jobexec.models import Message
from jobexec.operations.external.publish import publish_external_message
from jobexec.runtime.database_threads import once

from .contract import Property, Request, Response, optional, required
from .endpoint import Operation, endpoint
from .values import KEY, NOT_BLANK, OBJECT, TEXT, milliseconds

_PUBLICATION = Request(
    "MessagePublicationRequest",
    name=required(NOT_BLANK),
    correlationKey=optional(TEXT, "", "The key for which jobs wait; without it, the message only starts processes."),
    timeToLive=optional(
        milliseconds(), timedelta(0), "Milliseconds for which the message is kept for jobs that start waiting later."
    ),
    messageId=optional(TEXT, "", "While a message is kept, another with the same id is refused."),
    variables=optional(OBJECT, about="What the jobs receive."),
    tenantId=optional(TEXT, ""),
)


def _key(row: Message) -> str:
    return str(row.pk)


def _tenant(row: Message) -> str:
    return zeebe_format.tenant(row.tenant_id)


_PUBLISHED: Response[[Message]] = Response(
    "MessagePublicationResult", messageKey=Property(KEY, _key), tenantId=Property(TEXT, _tenant)
)


@endpoint(
    "publish",
    operation=Operation("publishMessage", "Publish a message", _PUBLICATION, gives=_PUBLISHED, problems=(409, 502)),
)
def publication(request: HttpRequest, body: Mapping[str, Any]) -> HttpResponse:
    """POST /messages/publication. The time to live is cut to MESSAGE_MAX_TTL: clients send any length."""
    row = once(
        publish_external_message,
        database(),
        body["name"],
        body["correlationKey"],
        variables=body["variables"],
        ttl=body["timeToLive"],
        message_id=body["messageId"] or None,
        tenant_id=zeebe_format.tenant_id(body["tenantId"]),
        caller=caller_of(request),
    )
    return json_answer(_PUBLISHED.of(row))
