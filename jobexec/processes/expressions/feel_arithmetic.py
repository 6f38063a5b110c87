"""Arithmetic of FEEL on numbers, texts, dates, times and durations. What has no result is null."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal, DecimalException
from typing import Any

from . import temporal
from .numbers import DECIMALS, DIGITS, plain, to_decimal
from .values import (
    DATE,
    DATE_TIME,
    DAYS_DURATION,
    MONTHS_DURATION,
    NUMBER,
    STRING,
    TIME,
    Months,
    Number,
    Value,
    check_number,
    kind,
)

_EXACT = 10**DIGITS
_MONTHS = 12 * 10**9


def compute(operator: str, left: Value, right: Value) -> Value:
    kinds = (kind(left), kind(right))
    if kinds == (NUMBER, NUMBER):
        return _NUMBERS[operator](check_number(left), check_number(right))
    operation = _OTHERS.get((kinds[0], operator, kinds[1]))
    if operation is None:
        return None
    try:
        return operation(left, right)
    except (ArithmeticError, ValueError):  # with decimals, 0 / 0 is no ZeroDivisionError
        return None


def negate(value: Value) -> Value:
    of = kind(value)
    if of == NUMBER:
        return -check_number(value)
    if of == DAYS_DURATION:
        return -value if value <= -timedelta.min else None
    return Months(-value.months) if of == MONTHS_DURATION else None


def _decimals(operation: Callable[[Decimal, Decimal], Decimal]) -> Callable[[Number, Number], Number | None]:
    def computed(left: Number, right: Number) -> Number | None:
        try:
            return plain(operation(to_decimal(left), to_decimal(right)))
        except DecimalException:
            return None

    return computed


_add, _subtract, _multiply, _raise = (
    _decimals(operation) for operation in (DECIMALS.add, DECIMALS.subtract, DECIMALS.multiply, DECIMALS.power)
)


def _fast(
    integers: Callable[[int, int], int], decimals: Callable[[Number, Number], Number | None]
) -> Callable[[Any, Any], Number | None]:
    """Integers are computed as such, as long as all of their digits count."""

    def computed(left: Any, right: Any) -> Number | None:
        if type(left) is int and type(right) is int:
            result = integers(left, right)
            if -_EXACT < result < _EXACT:
                return result
        return decimals(left, right)

    return computed


def _power(base: Number, exponent: Number) -> Number | None:
    """0 ** 0 is 1, as in Java and Python; decimals have no result for it, and infinity for 0 ** -1."""
    if exponent == 0:
        return 1
    return None if base == 0 and exponent < 0 else _raise(base, exponent)


_NUMBERS: dict[str, Callable[[Number, Number], Number | None]] = {
    "+": _fast(lambda left, right: left + right, _add),
    "-": _fast(lambda left, right: left - right, _subtract),
    "*": _fast(lambda left, right: left * right, _multiply),
    "/": _decimals(DECIMALS.divide),
    "**": _power,
}


def _months(count: Any) -> Months:
    """Raises OverflowError for more than a duration can say: its text has at most nine digits of years."""
    if abs(count) >= _MONTHS:
        raise OverflowError
    return Months(int(count))


def _months_times(months: Months, factor: Number) -> Months:
    return _months(DECIMALS.multiply(to_decimal(months.months), to_decimal(factor)))


def _months_by(months: Months, divisor: Number) -> Months:
    return _months(DECIMALS.divide(to_decimal(months.months), to_decimal(divisor)))


def _days_times(length: timedelta, factor: Number) -> timedelta:
    return timedelta(microseconds=int(to_decimal(length // timedelta(microseconds=1)) * to_decimal(factor)))


def _days_by(length: timedelta, divisor: Number) -> timedelta:
    return timedelta(microseconds=int(to_decimal(length // timedelta(microseconds=1)) / to_decimal(divisor)))


def _days_ratio(left: timedelta, right: timedelta) -> Number | None:
    tick = timedelta(microseconds=1)
    return _NUMBERS["/"](left // tick, right // tick)


_OTHERS: dict[tuple[str, str, str], Callable[[Any, Any], Value]] = {
    (STRING, "+", STRING): lambda left, right: left + right,
    (DATE, "+", DAYS_DURATION): temporal.add_to_date,
    (DATE, "-", DAYS_DURATION): lambda day, length: temporal.add_to_date(day, -length),
    (DATE, "+", MONTHS_DURATION): lambda day, months: temporal.add_months(day, months.months),
    (DATE, "-", MONTHS_DURATION): lambda day, months: temporal.add_months(day, -months.months),
    (DATE, "-", DATE): lambda left, right: left - right,
    (DATE_TIME, "+", DAYS_DURATION): temporal.add_time,
    (DATE_TIME, "-", DAYS_DURATION): lambda moment, length: temporal.add_time(moment, -length),
    (DATE_TIME, "+", MONTHS_DURATION): lambda moment, months: temporal.add_months(moment, months.months),
    (DATE_TIME, "-", MONTHS_DURATION): lambda moment, months: temporal.add_months(moment, -months.months),
    (DATE_TIME, "-", DATE_TIME): lambda left, right: temporal.difference(temporal.instants(left, right)),
    (TIME, "+", DAYS_DURATION): temporal.add_to_clock,
    (TIME, "-", DAYS_DURATION): lambda clock, length: temporal.add_to_clock(clock, -length),
    (TIME, "-", TIME): lambda left, right: temporal.difference(temporal.clocks(left, right)),
    (DAYS_DURATION, "+", DATE): lambda length, day: temporal.add_to_date(day, length),
    (DAYS_DURATION, "+", DATE_TIME): lambda length, moment: temporal.add_time(moment, length),
    (DAYS_DURATION, "+", TIME): lambda length, clock: temporal.add_to_clock(clock, length),
    (DAYS_DURATION, "+", DAYS_DURATION): lambda left, right: left + right,
    (DAYS_DURATION, "-", DAYS_DURATION): lambda left, right: left - right,
    (DAYS_DURATION, "*", NUMBER): _days_times,
    (NUMBER, "*", DAYS_DURATION): lambda factor, length: _days_times(length, factor),
    (DAYS_DURATION, "/", NUMBER): _days_by,
    (DAYS_DURATION, "/", DAYS_DURATION): _days_ratio,
    (MONTHS_DURATION, "+", DATE): lambda months, day: temporal.add_months(day, months.months),
    (MONTHS_DURATION, "+", DATE_TIME): lambda months, moment: temporal.add_months(moment, months.months),
    (MONTHS_DURATION, "+", MONTHS_DURATION): lambda left, right: _months(left.months + right.months),
    (MONTHS_DURATION, "-", MONTHS_DURATION): lambda left, right: _months(left.months - right.months),
    (MONTHS_DURATION, "*", NUMBER): _months_times,
    (NUMBER, "*", MONTHS_DURATION): lambda factor, months: _months_times(months, factor),
    (MONTHS_DURATION, "/", NUMBER): _months_by,
    (MONTHS_DURATION, "/", MONTHS_DURATION): lambda left, right: _NUMBERS["/"](left.months, right.months),
}
