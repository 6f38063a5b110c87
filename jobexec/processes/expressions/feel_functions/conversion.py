"""Conversions, and functions of null and boolean values."""

from __future__ import annotations

import json
import re
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal, DecimalException
from typing import Any

from .. import temporal
from ..comparison import check_level
from ..errors import EvaluationError, LimitExceeded
from ..feel_text import as_json, to_text
from ..functions import Functions
from ..numbers import plain, to_decimal
from ..values import Months, Number, Value, kind

FUNCTIONS = Functions()
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,5})?")


@FUNCTIONS.register("not", "negand: boolean")
def not_(negand: bool) -> bool:
    return not negand


@FUNCTIONS.register("is defined", "value: any")
def is_defined(value: Value) -> bool:
    return value is not None


@FUNCTIONS.register("get or else", "value: any, default: any")
def get_or_else(value: Value, default: Value) -> Value:
    return default if value is None else value


@FUNCTIONS.register("assert", "value: any, condition: any, cause?: string|null")
def assert_(value: Value, condition: Value, cause: str | None = None) -> Value:
    """The value. Raises EvaluationError, with the cause, unless the condition is true."""
    if condition is True:
        return value
    raise EvaluationError(cause or "the condition of assert() is not true")


@FUNCTIONS.register("to json", "value: any")
def to_json(evaluation: Any, value: Value) -> str:
    to_text(evaluation, value)  # pays for each item, and refuses what is nested too deeply
    return json.dumps(as_json(value), ensure_ascii=False, separators=(",", ":"))


@FUNCTIONS.register("from json", "value: string")
def from_json(text: str) -> Value:
    try:
        value = json.loads(text, parse_constant=_no_constant)
        # Half a surrogate pair and an infinite number are texts and numbers of Python, and of nothing else.
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
        return value
    except ValueError:
        return None
    except RecursionError:
        raise LimitExceeded("the JSON is nested too deeply") from None


@FUNCTIONS.register("is", "value1: any, value2: any")
def is_(one: Value, other: Value) -> bool:
    """Whether they are the same, also in their kind, and times also in their offset."""
    return bool(_exactly(one, 1) == _exactly(other, 1))


def _exactly(value: Value, level: int) -> Any:
    """What only the same value has."""
    check_level(level)
    if isinstance(value, datetime | time):
        value = value.isoformat()
    elif isinstance(value, list):
        value = [_exactly(item, level + 1) for item in value]
    elif isinstance(value, dict):
        value = {key: _exactly(item, level + 1) for key, item in value.items()}
    return kind(value), value


@FUNCTIONS.register("string", "from: any")
def string(evaluation: Any, value: Value) -> str | None:
    return None if value is None else to_text(evaluation, value)


@FUNCTIONS.register("number", "from: string")
def number(text: str) -> Number | None:
    if not _NUMBER.fullmatch(text) or len(text) > 400:
        return None
    try:
        return plain(to_decimal(Decimal(text)))
    except DecimalException:
        return None


@FUNCTIONS.register("number", "from: string, grouping separator: string|null, decimal separator?: string|null")
def number_with_separators(text: str, grouping: str | None, decimal: str | None = None) -> Number | None:
    if grouping not in (None, " ", ",", ".") or decimal not in (None, ",", ".") or grouping == (decimal or "."):
        return None
    if grouping:
        text = text.replace(grouping, "")
    return number(text.replace(decimal, ".") if decimal else text)


@FUNCTIONS.register("date", "from: string|date|date and time")
def date_from(value: str | date | datetime) -> date | None:
    if isinstance(value, str):
        return temporal.parse_date(value)
    return value.date() if isinstance(value, datetime) else value


@FUNCTIONS.register("date", "year: number, month: number, day: number")
def date_of(year: Number, month: Number, day: Number) -> date | None:
    try:
        return date(int(year), int(month), int(day))
    except (ValueError, OverflowError):
        return None


@FUNCTIONS.register("time", "from: string|time|date and time|date")
def time_from(value: str | time | datetime | date) -> time | None:
    if isinstance(value, str):
        return temporal.parse_time(value)
    if isinstance(value, datetime):
        return value.timetz()
    return value if isinstance(value, time) else time()


@FUNCTIONS.register("time", "hour: number, minute: number, second: number, offset?: days and time duration|null")
def time_of(hour: Number, minute: Number, second: Number, offset: timedelta | None = None) -> time | None:
    try:
        whole, microseconds = divmod(int(second * 1_000_000), 1_000_000)
        zone = None if offset is None else timezone(offset)
        return time(int(hour), int(minute), whole, microseconds, tzinfo=zone)
    except (ValueError, OverflowError):
        return None


@FUNCTIONS.register("date and time", "from: string|date and time")
def date_and_time_from(value: str | datetime) -> datetime | None:
    return temporal.parse_date_time(value) if isinstance(value, str) else value


@FUNCTIONS.register("date and time", "date: date|date and time, time: time")
def date_and_time_of(day: date, clock: time) -> datetime:
    return datetime.combine(day, clock)


@FUNCTIONS.register("date and time", "date: date and time, timezone: string")
def date_and_time_in_zone(moment: datetime, zone: str) -> datetime | None:
    if not temporal.is_zoned(moment):
        return None
    model = temporal.parse_time(f"00:00:00@{zone}")
    return None if model is None else temporal.in_zone(moment, model.tzinfo)


@FUNCTIONS.register("duration", "from: string|days and time duration|years and months duration")
def duration(value: str | timedelta | Months) -> timedelta | Months | None:
    return temporal.parse_duration(value) if isinstance(value, str) else value


@FUNCTIONS.register("years and months duration", "from: date|date and time, to: date|date and time")
def years_and_months_duration(start: date, end: date) -> Months:
    first, last = (day.date() if isinstance(day, datetime) else day for day in (start, end))
    return temporal.months_between(first, last)


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")
