"""Functions of texts. Positions count from 1; negative ones from the end."""

from __future__ import annotations

from base64 import b64encode
from typing import Any
from uuid import uuid4

from ..errors import EvaluationError
from ..functions import Functions
from ..values import Number, Value
from . import patterns

FUNCTIONS = Functions()
register = FUNCTIONS.register
#: Characters with a meaning in a pattern.
_PATTERN = frozenset("\\^$.|?*+()[]{}")


@register("substring", "string: string, start position: number, length?: number")
def substring(string: str, start: Number, length: Number | None = None) -> str | None:
    at = int(start)
    if at == 0 or (length is not None and length < 0):
        return None
    first = at - 1 if at > 0 else max(len(string) + at, 0)
    return string[first:] if length is None else string[first : first + int(length)]


@register("string length", "string: string")
def string_length(string: str) -> int:
    return len(string)


@register("upper case", "string: string")
def upper_case(string: str) -> str:
    return string.upper()


@register("lower case", "string: string")
def lower_case(string: str) -> str:
    return string.lower()


@register("substring before", "string: string, match: string")
def substring_before(string: str, match: str) -> str:
    before, found, _ = string.partition(match) if match else ("", "", "")
    return before if found else ""


@register("substring after", "string: string, match: string")
def substring_after(string: str, match: str) -> str:
    if not match:
        return string
    return string.partition(match)[2]


@register("contains", "string: string, match: string")
def contains(string: str, match: str) -> bool:
    return match in string


@register("starts with", "string: string, match: string")
def starts_with(string: str, match: str) -> bool:
    return string.startswith(match)


@register("ends with", "string: string, match: string")
def ends_with(string: str, match: str) -> bool:
    return string.endswith(match)


@register("trim", "string: string")
def trim(string: str) -> str:
    return string.strip()


@register("split", "string: string, delimiter: string")
def split(evaluation: Any, string: str, delimiter: str) -> list[str] | None:
    """By a pattern. A single character means itself, as it does after a backslash if it is no letter or digit."""
    if not delimiter:
        return None
    if len(delimiter) == 2 and delimiter[0] == "\\" and not delimiter[1].isalnum():
        return string.split(delimiter[1])
    if len(delimiter) == 1 or _PATTERN.isdisjoint(delimiter):
        return string.split(delimiter)
    if patterns.is_available():
        return patterns.split(evaluation, string, delimiter)
    if delimiter == "\\s":
        return string.replace("\t", " ").replace("\n", " ").replace("\r", " ").split(" ")
    raise EvaluationError(f"split() by a regular expression {patterns.NEEDS}, got {delimiter[:50]!r}")


@register("string join", "list: list, delimiter?: string|null, prefix?: string|null, suffix?: string|null")
def string_join(
    evaluation: Any,
    items: list[Value],
    delimiter: str | None = None,
    prefix: str | None = None,
    suffix: str | None = None,
) -> str | None:
    if any(item is not None and type(item) is not str for item in items):
        return None
    texts = [item for item in items if item is not None]
    evaluation.charge_text(sum(map(len, texts)) + len(texts) * len(delimiter or ""))
    return (prefix or "") + (delimiter or "").join(texts) + (suffix or "")


@register("is blank", "string: string")
def is_blank(string: str) -> bool:
    return not string.strip()


@register("to base64", "value: string")
def to_base64(evaluation: Any, value: str) -> str:
    data = value.encode(errors="replace")
    evaluation.charge_text((len(data) + 2) // 3 * 4)
    return b64encode(data).decode("ascii")


@register("uuid")
def uuid() -> str:
    return str(uuid4())
