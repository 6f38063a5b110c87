"""Encode the return values of tasks for storage."""

from __future__ import annotations

from typing import Any

from jobexec.conf import get_settings
from jobexec.exceptions import DoNotRetry, InvalidJob
from jobexec.json_values import check_json, encode_json
from jobexec.sensitive import hide

from ..sql.insert import json_text


def encode_return_value(value: Any) -> str:
    """Encode a return value as JSON. Raises DoNotRetry if that fails, or exceeds RESULT_MAX_SIZE bytes."""
    text = encode_json(value)
    if text is None:
        try:
            check_json("return value", value)
        except InvalidJob:
            raise DoNotRetry(f"It has run, but its return value cannot be stored: {_problem(value)}") from None
        text = json_text(value)
    longest = get_settings().result_max_size
    if len(text.encode()) > longest:
        raise DoNotRetry(
            f"It has run, but its return value cannot be stored: {len(text.encode())} bytes of JSON,"
            f" and RESULT_MAX_SIZE allows {longest}."
        )
    return text


def _problem(value: Any) -> str:
    """Why it is not JSON; the text quotes the value, without sensitive parts."""
    try:
        check_json("return value", hide(value))
    except InvalidJob as error:
        return str(error)
    except RecursionError:
        return "return value: it is nested too deeply."
    return "return value: expected JSON, also below its sensitive names."
