"""Validate what external workers send before it is written, and redact the texts that are shown."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from django.core.serializers.json import DjangoJSONEncoder

from jobexec import clock
from jobexec.conf import get_settings
from jobexec.encryption import envelope_of
from jobexec.exceptions import InvalidJob
from jobexec.json_values import check_json, check_storable, encode_json, shown
from jobexec.models import AbstractJob
from jobexec.sensitive import redact_text, values_below

from ..rows.redaction_by_definition import callbacks_of, names_by_definitions
from ..sql.errors import shortened, storable
from ..sql.insert import json_text
from ..values.arguments import MOST_RETRIES
from ..values.failure import MESSAGE_LENGTH, STACK_LENGTH

#: The length of the columns of types and of workers.
_LONGEST_NAME = 255


def checked_variables(name: str, value: Any) -> dict[str, Any]:
    """Validate variables for storage; None counts as none.

    Raises :class:`~jobexec.exceptions.InvalidJob` if they are not a JSON object, or have more bytes than
    EXTERNAL_MAX_PAYLOAD.
    """
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise InvalidJob(f"{name}: expected a JSON object, got {shown(value)}.")
    given = dict(value)
    encoded = encode_json(given)
    if encoded is None:
        check_json(name, given)
        encoded = json.dumps(given, cls=DjangoJSONEncoder)
    if len(encoded) > get_settings().external_max_payload:  # in ASCII, which is never shorter
        check_size(name, given)
    return given


def check_size(name: str, value: dict[str, Any], setting: str = "EXTERNAL_MAX_PAYLOAD") -> None:
    """Raise :class:`~jobexec.exceptions.InvalidJob` if the JSON of the value has more bytes than the setting allows."""
    limit: int = getattr(get_settings(), setting.lower())
    size = len(json.dumps(value, cls=DjangoJSONEncoder, ensure_ascii=False).encode())
    if size > limit:
        raise InvalidJob(f"{name}: expected at most {limit:,} bytes of JSON (setting {setting}), got {size:,}.")


def too_large(configuration: Mapping[str, Any]) -> str:
    """Why a job with its added variables cannot be handed out; empty if it can."""
    size, limit = len(json_text(configuration).encode()), get_settings().external_max_payload
    if envelope_of(configuration):
        size = size * 3 // 4  # encrypted it is in base64
    if size <= limit:
        return ""
    return f"Its variables have {size:,} bytes; the limit is {limit:,} (setting EXTERNAL_MAX_PAYLOAD)."


def checked_retries(retries: Any) -> int:
    """The retries that a worker reports, a negative number as 0. Raises :class:`~jobexec.exceptions.InvalidJob`."""
    if not isinstance(retries, int) or isinstance(retries, bool) or retries > MOST_RETRIES:
        raise InvalidJob(f"retries: expected a whole number of at most {MOST_RETRIES}, got {shown(retries)}.")
    return max(0, retries)


def checked_code(code: Any) -> str:
    """Validate an error code. Raises :class:`~jobexec.exceptions.InvalidJob` if it is blank."""
    if not isinstance(code, str) or not code.strip():
        raise InvalidJob(f"code: expected a string that is not blank, got {shown(code)}.")
    check_storable("code", code)
    return code


def checked_name(field: str, name: Any) -> str:
    """Validate a type, or the name of a worker.

    Raises :class:`~jobexec.exceptions.InvalidJob`, which names the ``field``, if the column cannot store it.
    """
    if not isinstance(name, str) or len(name) > _LONGEST_NAME:
        got = f"{len(name):,}" if isinstance(name, str) else shown(name)
        raise InvalidJob(f"{field}: expected a string of at most {_LONGEST_NAME} characters, got {got}.")
    check_storable(field, name)
    return name


def moment_after(using: str, name: str, duration: Any) -> datetime:
    """Now plus a duration. Raises :class:`~jobexec.exceptions.InvalidJob` if it is negative or past the year 9999."""
    if not isinstance(duration, timedelta) or duration < timedelta(0):
        raise InvalidJob(f"{name}: expected a timedelta of at least 0, got {shown(duration)}.")
    try:
        return clock.now(using) + duration
    except OverflowError:
        raise InvalidJob(f"{name}: {duration} from now is past the year 9999.") from None


def said(name: str, text: Any) -> str:
    """Validate a message or details. Raises :class:`~jobexec.exceptions.InvalidJob` if it is not a text."""
    if text is None:
        return ""
    if not isinstance(text, str):
        raise InvalidJob(f"{name}: expected a string, got {shown(text)}.")
    return storable(text)


def shown_texts(row: AbstractJob, sent: Mapping[str, Any], message: str, details: str = "") -> tuple[str, str]:
    """Message and details for storage: shortened, and without sensitive values of the job or of what was sent.

    Values are sensitive by the names of variables and headers (SENSITIVE_ARGUMENTS), and by the definitions of the
    handlers that receive these variables when the job has ended.
    """
    callbacks = set(callbacks_of(row.handler_configuration)) if message or details else set[str]()
    named: set[str] = set()
    if callbacks:
        named.update(*names_by_definitions(callbacks, row._state.db or "default").values())
    given = (row.handler_configuration, row.custom_headers, sent)
    secrets = [value for values in given for value in values_below(values, named)]
    return (
        redact_text(message, secrets, 2 * MESSAGE_LENGTH)[:MESSAGE_LENGTH],
        shortened(redact_text(details, secrets, STACK_LENGTH), STACK_LENGTH),
    )
