"""Names and keys of messages and waits; nothing here queries the database."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from django.core.serializers.json import DjangoJSONEncoder

from jobexec.conf import get_settings
from jobexec.exceptions import InvalidJob
from jobexec.json_values import check_json
from jobexec.models import Message


@dataclass(frozen=True, slots=True)
class ReceivedMessage:
    """The message that a job has received, with the arguments of ``publish_message``.

    ``id`` is its message id, None if it has none. ``number`` is the key by which the gateways identify it.
    """

    name: str
    key: str
    payload: Any
    id: str | None
    number: int

    @classmethod
    def read(cls, text: str) -> ReceivedMessage:
        """Read what :func:`as_text` has written into a row."""
        return cls(**json.loads(text))


def as_text(message: Message) -> str:
    """A message in the rows of the jobs that receive it."""
    received = {"name": message.name, "key": message.key, "payload": message.payload, "id": message.message_id}
    return json.dumps({**received, "number": message.pk}, cls=DjangoJSONEncoder)


def check_payload(value: Any) -> None:
    """Raise InvalidJob for a payload that is not JSON, or longer than MESSAGE_MAX_PAYLOAD."""
    check_json("payload", value)
    size, most = len(json.dumps(value, cls=DjangoJSONEncoder).encode()), get_settings().message_max_payload
    if size > most:
        raise InvalidJob(
            f"payload: expected at most {most:,} bytes of JSON (setting MESSAGE_MAX_PAYLOAD), got {size:,}."
        )
