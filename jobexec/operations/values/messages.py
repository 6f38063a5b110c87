"""Names and keys of messages and waits; nothing here queries the database."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from django.core.serializers.json import DjangoJSONEncoder

from jobexec.conf import get_settings
from jobexec.encryption import envelope_of, key_of, shown_envelope, stored_payload, unseal_payload
from jobexec.exceptions import InvalidJob
from jobexec.json_values import check_json
from jobexec.models import Message
from jobexec.sensitive import HIDDEN, hide, json_problem


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
        """Read what :func:`as_text` has written into a row.

        Raises :class:`~jobexec.exceptions.DecryptionFailed` and :class:`~jobexec.exceptions.NotDecryptableYet`.
        """
        found = json.loads(text)
        return cls(**{**found, "payload": unseal_payload(found["payload"], found["number"])})


def as_text(message: Message) -> str:
    """A message in the rows of the jobs that receive it."""
    received = {"name": message.name, "key": message.key, "payload": message.payload, "id": message.message_id}
    return json.dumps({**received, "number": message.pk}, cls=DjangoJSONEncoder)


def renewed(text: str) -> str:
    """What :func:`as_text` has written, encrypted with the newest key. Raises as :meth:`ReceivedMessage.read`."""
    found = json.loads(text)
    number = found["number"]
    payload = stored_payload(unseal_payload(found["payload"], number), number)
    return json.dumps({**found, "payload": payload}, cls=DjangoJSONEncoder)


def shown_message(text: str) -> Any:
    """What :func:`as_text` has written, for display; nothing of what cannot be read."""
    try:
        found = json.loads(text)
        return {**hide(found), "payload": shown_payload(found["payload"])}
    except (ValueError, RecursionError, TypeError, LookupError):
        return HIDDEN


def shown_payload(payload: Any) -> Any:
    """A stored payload for display: without sensitive values, and nothing of one that is encrypted."""
    if key_of(payload) is not None:
        return shown_envelope(payload)
    envelope = envelope_of(payload)
    return hide(payload if envelope is None else envelope.get("value"))


def check_payload(value: Any) -> None:
    """Raise InvalidJob for a payload that is not JSON, or longer than MESSAGE_MAX_PAYLOAD."""
    try:
        check_json("payload", value)
    except InvalidJob:
        raise InvalidJob(json_problem("payload", value)) from None
    size, most = len(json.dumps(value, cls=DjangoJSONEncoder).encode()), get_settings().message_max_payload
    if size > most:
        raise InvalidJob(
            f"payload: expected at most {most:,} bytes of JSON (setting MESSAGE_MAX_PAYLOAD), got {size:,}."
        )
