"""Checks of values that are stored as JSON, with errors for the caller."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from math import isfinite
from typing import Any

from django.core.serializers.json import DjangoJSONEncoder
from django.db.models import Model
from django.utils.functional import Promise

from .exceptions import InvalidJob

#: How deep JSON may be nested. Its readers (masking, pages, other languages) recurse as deep.
MAX_DEPTH = 200
#: How long JSON may be that an operator enters.
MAX_LENGTH = 1_000_000

_BRACKETS = b"[]{}"
_NO_BRACKETS = bytes(set(range(256)) - set(_BRACKETS))
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[{]|[\]}]')
_ESCAPED_NUL = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")


class _Encoder(DjangoJSONEncoder):
    """Django's, but not for lazy translations: whichever language is active now would decide about the text."""

    def default(self, o: Any) -> Any:
        if isinstance(o, Promise):
            raise TypeError("it is a lazy string, which depends on the active language; pass str() of it")
        return super().default(o)


_ENCODER = _Encoder(allow_nan=False)
# Escapes of U+0000 or of half a surrogate pair: check_json refuses some of them and accepts others.
_SUSPECT = re.compile(r"\\u(?:0000|d[89a-f])")


def encode_json(value: Any) -> str | None:
    """The JSON of a value for storage; None if it may fail :func:`check_json`, which then raises the reason."""
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
    # Empty pairs are removed level by level; what is left is deeper, or is inside a string.
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


class TooMuchJSON(ValueError):
    """JSON beyond the limits of :func:`read_json`."""

    def __init__(self) -> None:
        super().__init__(f"expected JSON of at most {MAX_LENGTH:,} characters, nested at most {MAX_DEPTH} deep")


class TooDeep(InvalidJob):
    """A value that is nested too deeply, or contains itself. It is not quoted."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name}: expected JSON that is nested at most {MAX_DEPTH} deep, and does not contain itself.")


def read_json(text: str) -> Any:
    """The value that an operator enters as JSON. Raises ValueError if it is none, and TooMuchJSON."""
    if len(text) > MAX_LENGTH:
        raise TooMuchJSON
    try:
        value = json.loads(text)
    except RecursionError:
        raise TooMuchJSON from None
    if is_too_deep(text):
        raise TooMuchJSON
    return value


def check_json(name: str, value: Any) -> None:
    """Raise InvalidJob if a value is not JSON by Django's encoder and all supported databases."""
    try:
        text = json.dumps(value, cls=_Encoder, allow_nan=False, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as error:
        if isinstance(error, RecursionError) or _contains_itself(value):
            raise TooDeep(name) from None
        path, part = first_fault(value, _ENCODER.encode)
        if isinstance(part, Model):
            raise InvalidJob(
                f"{name}{path}: expected JSON, got the model instance {part!r}; pass its primary key."
            ) from None
        raise InvalidJob(f"{name}{path}: expected JSON, got {shown(part)} ({error}).") from error
    if is_too_deep(text):
        raise TooDeep(name)
    # JSON encodes U+0000 as an escape; after an escaped backslash the same letters are only text.
    nul = "\\u0000" in text and _ESCAPED_NUL.search(text)
    check_storable(name, "\x00" if nul else text)


def _contains_itself(value: Any) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [part for each in level for _key, part in _parts(each) if isinstance(part, Mapping | list | tuple)]
        if not level or len(level) > MAX_LENGTH:
            return False
    return True


def first_fault(value: Any, encode: Callable[[Any], object]) -> tuple[str, Any]:
    """The path to the innermost part of a value that ``encode`` refuses, as ``['lines'][0]``, and that part.

    In one pass: a client may send a number that is no JSON, such as 1e999, deep in a million others.
    """
    try:
        found = _fault(value, encode, MAX_DEPTH)
    except RecursionError:  # it is nested deeper, or contains itself
        found = None
    keys, part = found or ([], value)
    return "".join(f"[{shown(key)}]" for key in reversed(keys)), part


def _fault(value: Any, encode: Callable[[Any], object], levels: int) -> tuple[list[Any], Any] | None:
    """The keys that lead to it, the innermost first, and the part itself."""
    if _is_plain(value):
        return None
    if not levels:
        raise RecursionError
    for key, part in _parts(value):
        if (found := _fault(part, encode, levels - 1)) is not None:
            found[0].append(key)
            return found
    # What may be wrong with it itself: the keys of a mapping, or a value without parts.
    if isinstance(value, list | tuple) or (type(value) is dict and all(map(_is_plain, value))):
        return None
    return ([], value) if _refuses(encode, dict.fromkeys(value) if type(value) is dict else value) else None


def _is_plain(value: Any) -> bool:
    """Whether it is certainly JSON, without asking the encoder."""
    kind = type(value)
    if kind is int:
        return value.bit_length() <= 64  # type: ignore[no-any-return]  # very long ones cannot be written
    return kind is str or kind is bool or value is None or (kind is float and isfinite(value))


def _parts(value: Any) -> Iterable[tuple[Any, Any]]:
    if isinstance(value, Mapping):
        return value.items()
    return enumerate(value) if isinstance(value, list | tuple) else ()


def _refuses(encode: Callable[[Any], object], value: Any) -> bool:
    try:
        encode(value)
    except (TypeError, ValueError, RecursionError):
        return True
    return False


def shown(value: Any) -> str:
    """A value for a message: shortened, and also if its repr() fails."""
    try:
        text = repr(value)
    except Exception:  # a broken __repr__, an integer of more than 4300 digits
        text = f"a {type(value).__name__} that cannot be shown"
    return text if len(text) <= 200 else f"{text[:200]}..."


def check_storable(name: str, text: str) -> None:
    """PostgreSQL cannot store U+0000, and no database half a surrogate pair; jobs must not depend on the database."""
    if "\x00" in text:
        raise InvalidJob(f"{name}: the character U+0000 cannot be stored.")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidJob(f"{name}: expected a string that is valid Unicode ({error}).") from None
