"""What may be stored as JSON, and how whoever passes something else is told."""

from __future__ import annotations

import json
import re
from typing import Any

from django.core.serializers.json import DjangoJSONEncoder
from django.db.models import Model

from .exceptions import InvalidJob

#: How deep JSON may be nested. What reads it again (masking, pages, other languages) goes as deep as it is.
MAX_DEPTH = 200

_BRACKETS = b"[]{}"
_NO_BRACKETS = bytes(set(range(256)) - set(_BRACKETS))
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[{]|[\]}]')
_ESCAPED_NUL = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")
_ENCODER = DjangoJSONEncoder(allow_nan=False)
# What the text of check_json may not hold, and what it may: an escape of U+0000 or of half a surrogate pair.
_SUSPECT = re.compile(r"\\u(?:0000|d[89a-f])")


def encode_json(value: Any) -> str | None:
    """The JSON of a value as it is stored; None if it is not certain to pass :func:`check_json`, which says why."""
    try:
        text = _ENCODER.encode(value)
    except (TypeError, ValueError, RecursionError):
        return None
    if is_too_deep(text):
        return None
    return None if "\\u" in text and _SUSPECT.search(text) else text


def is_too_deep(text: str) -> bool:
    """Whether JSON is nested deeper than MAX_DEPTH."""
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return False
    # Pairs without anything within go away level by level; what is left is deeper, or stands in a string.
    left = text.encode("utf-8", "surrogatepass").translate(None, _NO_BRACKETS)
    for _ in range(MAX_DEPTH):
        left = left.replace(b"[]", b"").replace(b"{}", b"")
        if not left:
            return False
    depth = 0
    for token in _TOKEN.finditer(text):
        if token[0] in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                return True
        elif token[0] in "]}":
            depth -= 1
    return False


def check_json(name: str, value: Any) -> None:
    """Raise InvalidJob if a value is not JSON as Django's encoder and all supported databases understand it."""
    try:
        text = json.dumps(value, cls=DjangoJSONEncoder, allow_nan=False, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as error:
        if isinstance(value, Model):
            raise InvalidJob(
                f"{name}: expected JSON, got the model instance {value!r}; pass its primary key."
            ) from None
        raise InvalidJob(f"{name}: expected JSON, got {shown(value)} ({error}).") from error
    if is_too_deep(text):
        raise InvalidJob(f"{name}: expected JSON that is nested at most {MAX_DEPTH} deep.")
    # JSON spells U+0000 as an escape; behind an escaped backslash the same letters are only text.
    nul = "\\u0000" in text and _ESCAPED_NUL.search(text)
    check_storable(name, "\x00" if nul else text)


def shown(value: Any) -> str:
    """A value for a message: not endless, and also if it cannot be shown."""
    try:
        text = repr(value)
    except Exception:  # a broken __repr__, an integer of more than 4300 digits
        text = f"a {type(value).__name__} that cannot be shown"
    return text if len(text) <= 200 else f"{text[:200]}..."


def check_storable(name: str, text: str) -> None:
    """PostgreSQL cannot store U+0000, and no database half a surrogate pair; a job must not depend on which it is."""
    if "\x00" in text:
        raise InvalidJob(f"{name}: the character U+0000 cannot be stored.")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidJob(f"{name}: expected text that is valid Unicode ({error}).") from None
