"""Encode the return values of tasks for storage."""

from __future__ import annotations

from typing import Any

from jobexec.conf import get_settings
from jobexec.exceptions import DoNotRetry, InvalidJob
from jobexec.json_values import check_json, encode_json
from jobexec.sensitive import json_problem

from ..sql.insert import json_text


def encode_return_value(value: Any, name: str = "return value") -> str:
    """Encode a return value as JSON. Raises DoNotRetry if that fails, or exceeds RESULT_MAX_SIZE bytes."""
    text = encode_json(value)
    if text is None:
        try:
            check_json(name, value)
        except InvalidJob:
            raise not_stored(json_problem(name, value)) from None
        text = json_text(value)
    longest = get_settings().result_max_size
    if len(text.encode()) > longest:
        size = len(text.encode())
        raise not_stored(f"{name}: {size} bytes of JSON, and RESULT_MAX_SIZE allows {longest}.")
    return text


def not_stored(why: str) -> DoNotRetry:
    """What to raise for a handler that has run, and whose return value cannot be stored."""
    return DoNotRetry(f"It has run, but its return value cannot be stored: {why}")
