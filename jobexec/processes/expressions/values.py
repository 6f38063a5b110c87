"""The values of expressions: what JSON has, decimals, dates, times and durations. Nothing else takes part.

Types are compared exactly. An instance of a subclass could answer ``==`` or ``len()`` with code of its own, so it is
no value, and neither is any other object of Python.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, TypeAlias

from .errors import EvaluationError, LimitExceeded
from .limits import MAX_BITS, MAX_TEXT

#: One of the types in :data:`KINDS`.
Value: TypeAlias = Any
Number: TypeAlias = "int | float | Decimal"


@dataclass(frozen=True, slots=True, order=True)
class Months:
    """FEEL's years and months duration."""

    months: int


@dataclass(frozen=True, slots=True)
class Range:
    """FEEL's range: ``[1..5)``. Its ends have an order."""

    start: Value
    end: Value
    start_included: bool
    end_included: bool


NUMBER = "number"
STRING = "string"
BOOLEAN = "boolean"
NULL = "null"
LIST = "list"
CONTEXT = "context"
DATE = "date"
TIME = "time"
DATE_TIME = "date and time"
DAYS_DURATION = "days and time duration"
MONTHS_DURATION = "years and months duration"
RANGE = "range"

#: The kind of each type, by the names of FEEL.
KINDS: dict[type, str] = {
    int: NUMBER,
    float: NUMBER,
    Decimal: NUMBER,
    str: STRING,
    bool: BOOLEAN,
    type(None): NULL,
    list: LIST,
    dict: CONTEXT,
    date: DATE,
    time: TIME,
    datetime: DATE_TIME,
    timedelta: DAYS_DURATION,
    Months: MONTHS_DURATION,
    Range: RANGE,
}


def kind(value: Value) -> str:
    """The kind of a value, also of an item that :func:`check_value` has not seen."""
    found = KINDS.get(type(value))
    if found is None or (found == NUMBER and not _is_finite(value)):
        raise _no_value(value)
    return found


def check_value(value: object) -> Value:
    """Return the value itself. Raises EvaluationError if it is no value of expressions."""
    found = KINDS.get(type(value))
    if found is None or (found == NUMBER and not _is_finite(value)):
        raise _no_value(value)
    return value


def check_number(value: Number) -> Number:
    """Return a number that arithmetic may use. Raises EvaluationError for NaN, infinity and huge integers."""
    if type(value) is int:
        if value.bit_length() > MAX_BITS:
            raise LimitExceeded(f"an integer has more than {MAX_BITS:,} bits")
    elif not _is_finite(value):
        raise _no_value(value)
    return value


def _is_finite(number: Any) -> bool:
    if type(number) is int:
        return True
    return math.isfinite(number) if type(number) is float else bool(number.is_finite())


def _no_value(value: object) -> EvaluationError:
    if type(value) in (float, Decimal):
        return EvaluationError(f"{value} is not a value of expressions, because JSON has no such number")
    return EvaluationError(f"a {type(value).__name__} is not a value of expressions (JSON, decimals, dates, times)")


def check_text(text: str) -> str:
    if len(text) > MAX_TEXT:
        raise LimitExceeded(f"a string has more than {MAX_TEXT:,} characters")
    return text
