"""Arithmetic with limits. Integers stay exact; decimals have the 34 digits of DMN and of Java's MathContext."""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Context, Decimal, DivisionByZero, InvalidOperation, Overflow

from .values import Number

#: The decimal128 of IEEE 754.
DIGITS = 34
DECIMALS = Context(
    prec=DIGITS,
    rounding=ROUND_HALF_EVEN,
    Emin=-6143,
    Emax=6144,
    capitals=1,
    clamp=0,
    flags=[],
    traps=[InvalidOperation, DivisionByZero, Overflow],
)
_LARGEST = 10**DIGITS


def to_decimal(number: Number) -> Decimal:
    """A number as a decimal of at most 34 digits. Raises decimal.Overflow or InvalidOperation."""
    if type(number) is float:
        return DECIMALS.create_decimal(repr(number))
    return DECIMALS.create_decimal(number)


def plain(number: Decimal) -> Number:
    """An integer instead of a decimal, if it is the same number."""
    if -_LARGEST < number < _LARGEST and number == (whole := int(number)):
        return whole
    return number
