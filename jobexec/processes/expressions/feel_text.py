"""Values as texts of FEEL, which ``string()`` returns, and as JSON, which leaves the expression."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from .comparison import check_level
from .errors import LimitExceeded
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
    Months,
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


def as_json(value: Value) -> Value:
    """A value as the variables of a process have it: JSON, whose only numbers here are ``int`` and ``float``.

    Dates, times, durations and ranges become texts. Raises LimitExceeded for a number that is too large.
    """
    convert = _AS_JSON.get(type(value))
    return value if convert is None else convert(value)


def _json_number(number: Decimal) -> Number:
    exact = plain(number)
    if type(exact) is int:
        return exact
    found = float(exact)
    if math.isinf(found):
        raise LimitExceeded(f"{number} is too large for a number of JSON")
    return found


def _json_moment(moment: datetime) -> str:
    """With the offset of its zone instead of the name, which ISO 8601 does not have."""
    offset = moment.utcoffset()
    return format_date_time(moment if offset is None else moment.replace(tzinfo=timezone(offset)))


_AS_JSON: dict[type, Callable[[Any], Value]] = {
    list: lambda items: [as_json(item) for item in items],
    dict: lambda items: {key: as_json(item) for key, item in items.items()},
    Decimal: _json_number,
    date: date.isoformat,
    datetime: _json_moment,
    time: format_time,
    timedelta: format_duration,
    Months: format_duration,
    Range: _range,
}
