"""Values as texts of FEEL: what ``string()`` returns."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from .comparison import check_level
from .numbers import plain, to_decimal
from .temporal import format_date_time, format_duration, format_time
from .values import (
    BOOLEAN,
    CONTEXT,
    DATE,
    DATE_TIME,
    DAYS_DURATION,
    LIST,
    MONTHS_DURATION,
    NULL,
    NUMBER,
    RANGE,
    STRING,
    TIME,
    Number,
    Range,
    Value,
    check_number,
    check_text,
    kind,
)

if TYPE_CHECKING:
    from .evaluate import Evaluation


def to_text(evaluation: Evaluation, value: Value) -> str:
    """The text of a value. Strings inside lists and contexts are quoted."""
    if type(value) is str:
        return value
    return check_text("".join(_written(evaluation, value, 1)))


def format_number(number: Number) -> str:
    number = check_number(number)
    exact = plain(to_decimal(number)) if type(number) is float else number
    if type(exact) is Decimal:
        text = f"{exact:f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    return str(exact)


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r") + '"'


def _written(evaluation: Evaluation, value: Value, level: int) -> list[str]:
    of = kind(value)
    if of == LIST:
        return _joined(evaluation, "[]", [("", item) for item in value], level)
    if of == CONTEXT:
        return _joined(evaluation, "{}", [(f"{key}:", item) for key, item in value.items()], level)
    return [_WRITERS[of](value)]


def _joined(evaluation: Evaluation, brackets: str, items: list[tuple[str, Value]], level: int) -> list[str]:
    check_level(level)
    evaluation.charge(len(items))
    pieces = [brackets[0]]
    for at, (label, item) in enumerate(items):
        pieces += [", " if at else "", label, *_written(evaluation, item, level + 1)]
    return [*pieces, brackets[1]]


def _range(value: Range) -> str:
    ends = "..".join(_WRITERS[kind(end)](end) for end in (value.start, value.end))
    return f"{'[' if value.start_included else '('}{ends}{']' if value.end_included else ')'}"


_WRITERS: dict[str, Callable[[Any], str]] = {
    STRING: quoted,
    NUMBER: format_number,
    NULL: lambda value: "null",
    BOOLEAN: lambda value: "true" if value else "false",
    DATE: lambda value: str(value.isoformat()),
    TIME: format_time,
    DATE_TIME: format_date_time,
    DAYS_DURATION: format_duration,
    MONTHS_DURATION: format_duration,
    RANGE: _range,
}
