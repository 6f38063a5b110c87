"""Equality and order of FEEL: three-valued, and paid for, because lists may share their items."""

from __future__ import annotations

from functools import cmp_to_key
from typing import TYPE_CHECKING, Any

from .errors import LimitExceeded
from .limits import MAX_VALUE_DEPTH
from .numbers import to_decimal
from .temporal import clocks, instants
from .values import (
    CONTEXT,
    DATE,
    DATE_TIME,
    DAYS_DURATION,
    LIST,
    MONTHS_DURATION,
    NUMBER,
    STRING,
    TIME,
    Number,
    Range,
    Value,
    check_number,
    kind,
)

if TYPE_CHECKING:
    from .evaluate import Evaluation

_ORDERED = frozenset({NUMBER, STRING, DATE, TIME, DATE_TIME, DAYS_DURATION, MONTHS_DURATION})


def equal(evaluation: Evaluation, left: Value, right: Value, level: int = 1) -> bool | None:
    """None if the two cannot be compared: they are of different kinds, or only one has a time zone."""
    if left is None or right is None:
        return left is right
    of = kind(left)
    if of != kind(right):
        return None
    if of in (LIST, CONTEXT):
        check_level(level)
        evaluation.charge(len(left))
        items_equal = _lists_equal if of == LIST else _contexts_equal
        return items_equal(evaluation, left, right, level)
    if of in _ORDERED:
        pair = comparable(left, right)
        return None if pair is None else bool(pair[0] == pair[1])
    return bool(left == right)


def compare(left: Value, right: Value) -> int | None:
    """-1, 0 or 1; None if the two have no order."""
    pair = comparable(left, right)
    if pair is None:
        return None
    return int(pair[0] > pair[1]) - int(pair[0] < pair[1])


def comparable(left: Value, right: Value) -> tuple[Any, Any] | None:
    """The two in a form that operators of Python order as FEEL does; None if they have no order."""
    of = kind(left)
    if of != kind(right) or of not in _ORDERED:
        return None
    if of == NUMBER:
        return _number(left), _number(right)
    if of == DATE_TIME:
        return instants(left, right)
    if of == TIME:
        return clocks(left, right)
    return left, right


def includes(range_: Range, value: Value) -> bool | None:
    """Whether a value lies in a range; None if it cannot be compared with one of its ends."""
    for end, inner, included in (
        (range_.start, 1, range_.start_included),
        (range_.end, -1, range_.end_included),
    ):
        order = compare(value, end)
        if order is None:
            return None
        if order != inner and not (order == 0 and included):
            return False
    return True


def in_order(values: list[Value]) -> list[Value] | None:
    """The values sorted; None if two of them have no order."""
    if any(compare(values[0], value) is None for value in values):
        return None
    return sorted(values, key=cmp_to_key(lambda left, right: compare(left, right) or 0))


def check_level(level: int) -> None:
    if level > MAX_VALUE_DEPTH:
        raise LimitExceeded(f"a value is nested more than {MAX_VALUE_DEPTH} levels deep")


def _number(number: Number) -> Any:
    """0.1 from JSON is the 0.1 of a literal, which a binary fraction is not."""
    return to_decimal(check_number(number)) if type(number) is float else number


def _lists_equal(evaluation: Evaluation, left: list[Value], right: list[Value], level: int) -> bool:
    return len(left) == len(right) and all(
        equal(evaluation, one, other, level + 1) is True for one, other in zip(left, right, strict=True)
    )


def _contexts_equal(evaluation: Evaluation, left: dict[str, Value], right: dict[str, Value], level: int) -> bool:
    return left.keys() == right.keys() and all(
        equal(evaluation, left[key], right[key], level + 1) is True for key in left
    )
