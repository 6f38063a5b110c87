"""The semantics of JUEL's operators: the coercions of the Unified Expression Language 2.2, on JSON.

A missing variable is an error; a missing property is null. Where Java would compute with infinity, here is an error,
because JSON has none.
"""

from __future__ import annotations

import json
import math
import operator
import re
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal, DecimalException
from typing import Any

from .comparison import comparable
from .errors import EvaluationError
from .evaluate import Evaluation, Rules, evaluates
from .functions import JUEL_FUNCTIONS
from .juel import EXECUTION_CALLS, OBJECTS
from .numbers import DECIMALS, to_decimal
from .temporal import format_duration
from .tree import Index, ObjectProperty, Text
from .values import (
    BOOLEAN,
    CONTEXT,
    DATE,
    DATE_TIME,
    LIST,
    NUMBER,
    RANGE,
    STRING,
    TIME,
    Number,
    Value,
    check_number,
    check_text,
    check_value,
    kind,
)

_INTEGER = re.compile(r"[+-]?[0-9]{1,400}")
_DECIMAL = re.compile(r"[+-]?(?:[0-9]{1,400}\.?[0-9]{0,400}|\.[0-9]{1,400})(?:[eE][+-]?[0-9]{1,4})?")

_ARITHMETIC: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Decimal, Decimal], Decimal]]] = {
    "+": (operator.add, DECIMALS.add),
    "-": (operator.sub, DECIMALS.subtract),
    "*": (operator.mul, DECIMALS.multiply),
    "%": (lambda left, right: _remainder(left, right), DECIMALS.remainder),
}
_ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class JuelRules(Rules):
    def unknown(self, name: str) -> Value:
        raise EvaluationError(f"there is no variable {name!r}")

    def member(self, evaluation: Evaluation, target: Value, name: str) -> Value:
        if target is None:
            return None
        if type(target) is dict:
            return target.get(name)
        raise EvaluationError(f"a {kind(target)} has no property {name!r}")

    def unary(self, operator: str, value: Value) -> Value:
        if operator == "not":
            return not to_boolean(value)
        if operator == "empty":
            return value is None or (kind(value) in (STRING, LIST, CONTEXT) and not value)
        return -to_number(value)

    def binary(self, evaluation: Evaluation, operator: str, left: Value, right: Value) -> Value:
        return _BINARY[operator](left, right)

    def conjunction(self, values: Iterator[Value]) -> Value:
        return all(map(to_boolean, values))

    def disjunction(self, values: Iterator[Value]) -> Value:
        return any(map(to_boolean, values))

    def condition(self, value: Value) -> bool:
        return to_boolean(value)

    def call(self, evaluation: Evaluation, name: str, values: Sequence[Value], names: Sequence[str]) -> Value:
        owner, _, verb = name.partition(".")
        if owner in OBJECTS and verb in EXECUTION_CALLS:
            return _of_variable(evaluation, verb, values[0])
        if name in JUEL_FUNCTIONS and name not in evaluation.context.functions:
            return JUEL_FUNCTIONS.named(name)[0].call(evaluation)
        return self.call_registered(evaluation, name, values)


def to_boolean(value: Value) -> bool:
    if type(value) is bool:
        return value
    if value is None:
        return False
    if type(value) is str:
        return value.lower() == "true"
    raise EvaluationError(f"expected true or false, found a {kind(value)}")


def to_number(value: Value) -> Number:
    """A number, or the one that a text says; null and the empty text are 0."""
    if kind(value) == NUMBER:
        return check_number(value)
    if value is None or value == "":
        return 0
    if type(value) is str:
        if _INTEGER.fullmatch(value):
            return check_number(int(value))
        if _DECIMAL.fullmatch(value):
            return check_number(float(value))
        raise EvaluationError(f"{value[:50]!r} is not a number")
    raise EvaluationError(f"expected a number, found a {kind(value)}")


def to_text(value: Value) -> str:
    if type(value) is str:
        return value
    if value is None:
        return ""
    if type(value) is bool:
        return "true" if value else "false"
    if kind(value) == NUMBER:
        return f"{check_number(value):f}" if type(value) is Decimal else repr(check_number(value))
    if kind(value) in (LIST, CONTEXT):
        return check_text(json.dumps(value, ensure_ascii=False, default=to_text))
    if kind(value) in (DATE, TIME, DATE_TIME):
        return str(value.isoformat())
    if kind(value) == RANGE:
        raise EvaluationError("a range cannot be converted to a string")
    return format_duration(value)


def equal(left: Value, right: Value) -> bool:
    if left is None or right is None:
        return left is right
    if type(left) is str and type(right) is str:
        return left == right
    kinds = (kind(left), kind(right))
    if NUMBER in kinds:
        return to_number(left) == to_number(right)
    if BOOLEAN in kinds:
        return to_boolean(left) == to_boolean(right)
    if STRING in kinds:
        return to_text(left) == to_text(right)
    if LIST in kinds or CONTEXT in kinds:
        return kinds[0] == kinds[1] and bool(left == right)
    pair = comparable(left, right)
    return pair is not None and bool(pair[0] == pair[1])


def _ordering(name: str) -> Callable[[Value, Value], bool]:
    compare = _ORDER[name]

    def in_order(left: Value, right: Value) -> bool:
        if type(left) is int and type(right) is int:
            return compare(left, right)
        if left is None or right is None:
            return left is right and name in ("<=", ">=")
        return compare(*_comparable(left, right))

    return in_order


def _comparable(left: Value, right: Value) -> tuple[Any, Any]:
    """The two as numbers if one of them is a number, else as texts if one of them is a text."""
    one, other = kind(left), kind(right)
    if NUMBER in (one, other):
        return to_number(left), to_number(right)
    if STRING in (one, other):
        return to_text(left), to_text(right)
    pair = comparable(left, right)
    if pair is None:
        raise EvaluationError(f"this {one} cannot be compared with this {other}")
    return pair


def _arithmetic(name: str) -> Callable[[Value, Value], Number]:
    return lambda left, right: _computed(name, to_number(left), to_number(right))


def _computed(name: str, left: Any, right: Any) -> Number:
    try:
        if Decimal in (type(left), type(right)):
            compute = DECIMALS.divide if name == "/" else _ARITHMETIC[name][1]
            return compute(to_decimal(left), to_decimal(right))
        # Division is that of Double, also between integers.
        return check_number(left / right if name == "/" else _ARITHMETIC[name][0](left, right))
    except ZeroDivisionError:
        raise EvaluationError("division by zero") from None
    except (OverflowError, DecimalException):
        raise EvaluationError(f"{name!r} has no result that is a finite number") from None


def _remainder(left: Any, right: Any) -> Any:
    """As in Java, the remainder has the sign of the dividend."""
    if right == 0:
        raise ZeroDivisionError
    if type(left) is int and type(right) is int:
        remainder = abs(left) % abs(right)
        return -remainder if left < 0 else remainder
    return math.fmod(left, right)


def _of_variable(evaluation: Evaluation, verb: str, name: Value) -> Value:
    if type(name) is not str:
        raise EvaluationError(f"expected the name of a variable, found a {kind(name)}")
    try:
        value = evaluation.lookup(name)
    except KeyError:
        return False if verb == "hasVariable" else None
    return True if verb == "hasVariable" else value


_BINARY: dict[str, Callable[[Value, Value], Value]] = {
    "=": equal,
    "!=": lambda left, right: not equal(left, right),
    **{name: _ordering(name) for name in _ORDER},
    **{name: _arithmetic(name) for name in (*_ARITHMETIC, "/")},
}


@evaluates(ObjectProperty)
def _object_property(evaluation: Evaluation, node: Any, rules: JuelRules) -> Value:
    evaluation.position = node.position
    known = evaluation.context.objects.get(node.object)
    if known is None:
        raise EvaluationError(f"{node.object!r} is not available here")
    if node.name not in known:
        raise EvaluationError(f"'{node.object}.{node.name}' is not available here")
    return check_value(known[node.name])


@evaluates(Index)
def _index(evaluation: Evaluation, node: Any, rules: JuelRules) -> Value:
    target, index = evaluation.value(node.target), evaluation.value(node.index)
    evaluation.position = node.position
    if target is None or index is None:
        return None
    if type(target) is dict:
        name = to_text(index)
        if evaluation.context.items_exist and name not in target:
            raise EvaluationError(f"the object has no item {name!r}")
        return check_value(target.get(name))
    if type(target) is not list:
        raise EvaluationError(f"a {kind(target)} has no items")
    at = to_number(index)
    if at != int(at):
        raise EvaluationError(f"expected a whole number as index, found {at}")
    if 0 <= at < len(target):
        return check_value(target[int(at)])
    if evaluation.context.items_exist:
        raise EvaluationError(f"the list has {len(target)} items, and none at {int(at)}")
    return None


@evaluates(Text)
def _text(evaluation: Evaluation, node: Any, rules: JuelRules) -> Value:
    return check_text("".join(to_text(evaluation.value(part)) for part in node.parts))


RULES = JuelRules()
