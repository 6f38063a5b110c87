"""Functions of numbers."""

from __future__ import annotations

from decimal import (
    ROUND_CEILING,
    ROUND_DOWN,
    ROUND_FLOOR,
    ROUND_HALF_DOWN,
    ROUND_HALF_EVEN,
    ROUND_HALF_UP,
    ROUND_UP,
    Decimal,
    DecimalException,
)
from random import random

from ..functions import Functions
from ..numbers import DECIMALS, plain, to_decimal
from ..values import Number

FUNCTIONS = Functions()
register = FUNCTIONS.register

#: The scales that DMN allows.
_SMALLEST, _LARGEST = -6111, 6176


def _rounded(number: Number, scale: Number, rounding: str) -> Number | None:
    places = int(scale)
    if not _SMALLEST <= places <= _LARGEST:
        return None
    try:
        exact = to_decimal(number)
        # As many digits as the number has after the point are enough, and more than 34 are none.
        if -int(exact.as_tuple().exponent) <= places:
            return plain(exact)
        context = DECIMALS.copy()
        context.rounding = rounding
        return plain(exact.quantize(Decimal(1).scaleb(-places), context=context))
    except DecimalException:
        return None


@register("decimal", "n: number, scale: number")
def decimal(n: Number, scale: Number) -> Number | None:
    return _rounded(n, scale, ROUND_HALF_EVEN)


@register("floor", "n: number, scale?: number")
def floor(n: Number, scale: Number = 0) -> Number | None:
    return _rounded(n, scale, ROUND_FLOOR)


@register("ceiling", "n: number, scale?: number")
def ceiling(n: Number, scale: Number = 0) -> Number | None:
    return _rounded(n, scale, ROUND_CEILING)


@register("round up", "n: number, scale: number")
def round_up(n: Number, scale: Number) -> Number | None:
    return _rounded(n, scale, ROUND_UP)


@register("round down", "n: number, scale: number")
def round_down(n: Number, scale: Number) -> Number | None:
    return _rounded(n, scale, ROUND_DOWN)


@register("round half up", "n: number, scale: number")
def round_half_up(n: Number, scale: Number) -> Number | None:
    return _rounded(n, scale, ROUND_HALF_UP)


@register("round half down", "n: number, scale: number")
def round_half_down(n: Number, scale: Number) -> Number | None:
    return _rounded(n, scale, ROUND_HALF_DOWN)


@register("abs", "n: number")
def absolute(n: Number) -> Number:
    return -n if n < 0 else n


@register("modulo", "dividend: number, divisor: number")
def modulo(dividend: Number, divisor: Number) -> Number | None:
    """The result has the sign of the divisor."""
    try:
        left, right = to_decimal(dividend), to_decimal(divisor)
        rest = DECIMALS.remainder(left, right)
        return plain(DECIMALS.add(rest, right) if rest and (rest < 0) != (right < 0) else rest)
    except DecimalException:
        return None


@register("sqrt", "number: number")
def sqrt(number: Number) -> Number | None:
    return plain(DECIMALS.sqrt(to_decimal(number))) if number >= 0 else None


@register("log", "number: number")
def log(number: Number) -> Number | None:
    return plain(DECIMALS.ln(to_decimal(number))) if number > 0 else None


@register("exp", "number: number")
def exp(number: Number) -> Number | None:
    try:
        return plain(DECIMALS.exp(to_decimal(number)))
    except DecimalException:
        return None


@register("odd", "number: number")
def odd(number: Number) -> bool | None:
    return modulo(number, 2) == 1


@register("even", "number: number")
def even(number: Number) -> bool | None:
    return modulo(number, 2) == 0


@register("random number")
def random_number() -> Number:
    """From 0 to 1, without 1."""
    return plain(to_decimal(random()))
