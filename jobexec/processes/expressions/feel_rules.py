"""The semantics of FEEL expressions: three-valued logic, and null instead of errors.

Only limits, values that are none, and functions of the project raise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from . import temporal
from .comparison import check_level, compare, equal, includes
from .evaluate import Evaluation, Rules, evaluates
from .feel import TYPES
from .feel_arithmetic import compute, negate
from .feel_functions import FEEL_FUNCTIONS
from .tree import Between, ContextOf, Filter, For, In, InstanceOf, ListOf, Node, Quantified, RangeOf, Test
from .values import (
    CONTEXT,
    DATE,
    DATE_TIME,
    DAYS_DURATION,
    LIST,
    MONTHS_DURATION,
    NUMBER,
    RANGE,
    TIME,
    Range,
    Value,
    kind,
)

_ORDERS: dict[str, Callable[[int], bool]] = {
    "<": lambda order: order < 0,
    "<=": lambda order: order <= 0,
    ">": lambda order: order > 0,
    ">=": lambda order: order >= 0,
}


class FeelRules(Rules):
    def unknown(self, name: str) -> Value:
        return None

    def member(self, evaluation: Evaluation, target: Value, name: str) -> Value:
        return _member(evaluation, target, name, 1)

    def unary(self, operator: str, value: Value) -> Value:
        return negate(value)

    def binary(self, evaluation: Evaluation, operator: str, left: Value, right: Value) -> Value:
        if operator == "=":
            return equal(evaluation, left, right)
        if operator == "!=":
            same = equal(evaluation, left, right)
            return None if same is None else not same
        if operator in _ORDERS:
            order = compare(left, right)
            return None if order is None else _ORDERS[operator](order)
        if type(left) is str and type(right) is str:
            evaluation.charge_text(len(left) + len(right))
        return compute(operator, left, right)

    def conjunction(self, values: Iterator[Value]) -> Value:
        return _all(values)

    def disjunction(self, values: Iterator[Value]) -> Value:
        return _any(values)

    def condition(self, value: Value) -> bool:
        return value is True

    def call(self, evaluation: Evaluation, name: str, values: Sequence[Value], names: Sequence[str]) -> Value:
        known = FEEL_FUNCTIONS.named(name)
        if not known:
            return self.call_registered(evaluation, name, values)
        for value in values:
            _charge(evaluation, value)
        for function in known:
            if function.matches(len(values), names):
                arguments = function.arguments(values, names)
                if arguments is not None:
                    given = (evaluation, *arguments) if function.evaluation else arguments
                    result = function.call(*given)
                    _charge(evaluation, result)
                    return result
        return None


def _member(evaluation: Evaluation, target: Value, name: str, level: int) -> Value:
    """That of a list is the list of those of its items."""
    of = kind(target)
    if of == CONTEXT:
        return target.get(name)
    if of == LIST:
        check_level(level)
        evaluation.charge(len(target))
        return [_member(evaluation, item, name, level + 1) for item in target]
    read = _PROPERTIES.get(of, {}).get(name)
    return None if read is None else read(target)


def _charge(evaluation: Evaluation, value: Value) -> None:
    if type(value) is list or type(value) is dict:
        evaluation.charge(len(value))
    elif type(value) is str:
        evaluation.charge_text(len(value))


def _all(values: Iterator[Value]) -> bool | None:
    """False if one is false, null if one is neither true nor false."""
    result: bool | None = True
    for value in values:
        if value is False:
            return False
        if value is not True:
            result = None
    return result


def _any(values: Iterator[Value]) -> bool | None:
    result: bool | None = False
    for value in values:
        if value is True:
            return True
        if value is not False:
            result = None
    return result


_DAY: dict[str, Callable[[Any], Value]] = {
    "year": lambda value: value.year,
    "month": lambda value: value.month,
    "day": lambda value: value.day,
}
_CLOCK: dict[str, Callable[[Any], Value]] = {
    "hour": lambda value: value.hour,
    "minute": lambda value: value.minute,
    "second": lambda value: value.second,
    "time offset": lambda value: value.utcoffset(),
    "timezone": temporal.zone_name,
}


def _years(months: int) -> int:
    return months // 12 if months >= 0 else -(-months // 12)


def _signed(read: Callable[[timedelta], int]) -> Callable[[timedelta], int]:
    """A part of a negative duration is negative, too."""
    return lambda value: -read(-value) if value < timedelta(0) else read(value)


_PROPERTIES: dict[str, dict[str, Callable[[Any], Value]]] = {
    DATE: {**_DAY, "weekday": lambda value: value.isoweekday()},
    TIME: _CLOCK,
    DATE_TIME: {**_DAY, **_CLOCK, "weekday": lambda value: value.isoweekday()},
    DAYS_DURATION: {
        "days": _signed(lambda value: value.days),
        "hours": _signed(lambda value: temporal.clock_parts(value)[0]),
        "minutes": _signed(lambda value: temporal.clock_parts(value)[1]),
        "seconds": _signed(lambda value: temporal.clock_parts(value)[2]),
    },
    MONTHS_DURATION: {
        "years": lambda value: _years(value.months),
        "months": lambda value: value.months - 12 * _years(value.months),
    },
    RANGE: {
        "start": lambda value: value.start,
        "end": lambda value: value.end,
        "start included": lambda value: value.start_included,
        "end included": lambda value: value.end_included,
    },
}


@evaluates(ListOf)
def _list(evaluation: Evaluation, node: Any, rules: FeelRules) -> Value:
    return [evaluation.value(item) for item in node.items]


@evaluates(ContextOf)
def _context(evaluation: Evaluation, node: Any, rules: FeelRules) -> Value:
    made: dict[str, Value] = {}
    for key, entry in node.entries:  # an entry sees those before it
        made[key] = evaluation.within(dict(made), entry)
    return made


@evaluates(RangeOf)
def _range(evaluation: Evaluation, node: Any, rules: FeelRules) -> Value:
    start, end = evaluation.value(node.start), evaluation.value(node.end)
    if compare(start, end) is None:
        return None
    return Range(start, end, node.start_included, node.end_included)


@evaluates(Test)
def _test(evaluation: Evaluation, node: Any, rules: FeelRules) -> Value:
    raise AssertionError("a test is evaluated with the value before it")


@evaluates(In)
def _in(evaluation: Evaluation, node: Any, rules: FeelRules) -> Value:
    value = evaluation.value(node.value)
    return _any(_passes(evaluation, value, test, rules) for test in node.tests)


def _passes(evaluation: Evaluation, value: Value, test: Node, rules: FeelRules) -> Value:
    if type(test) is Test:
        return rules.binary(evaluation, test.operator, value, evaluation.value(test.operand))
    expected = evaluation.value(test)
    if type(expected) is Range:
        return includes(expected, value)
    if type(expected) is not list or equal(evaluation, value, expected) is True:
        return equal(evaluation, value, expected)
    evaluation.charge(len(expected))
    return _any(
        includes(item, value) if type(item) is Range else equal(evaluation, value, item) is True for item in expected
    )


@evaluates(Between)
def _between(evaluation: Evaluation, node: Any, rules: FeelRules) -> Value:
    value = evaluation.value(node.value)
    low, high = evaluation.value(node.low), evaluation.value(node.high)
    return _all(rules.binary(evaluation, operator, value, end) for operator, end in ((">=", low), ("<=", high)))


@evaluates(InstanceOf)
def _instance_of(evaluation: Evaluation, node: Any, rules: FeelRules) -> Value:
    value, expected = evaluation.value(node.value), TYPES[node.type]
    return value is not None if expected is None else kind(value) == expected


@evaluates(Filter)
def _filter(evaluation: Evaluation, node: Any, rules: FeelRules) -> Value:
    target = evaluation.value(node.target)
    if target is None:
        return None
    items = target if type(target) is list else [target]
    kept = []
    for item in items or [None]:
        condition = _of_item(evaluation, item, node.condition)
        if kind(condition) == NUMBER:  # an index is the same for each item
            return _at(items, condition)
        if condition is True:
            kept.append(item)
    return kept if items else []


def _of_item(evaluation: Evaluation, item: Value, condition: Node) -> Value:
    """A condition sees ``item``, and the entries of an item that is a context."""
    evaluation.scopes.append({"item": item})
    if type(item) is dict:
        evaluation.scopes.append(item)
    try:
        return evaluation.value(condition)
    finally:
        if type(item) is dict:
            evaluation.scopes.pop()
        evaluation.scopes.pop()


def _at(items: list[Value], index: Value) -> Value:
    at = int(index)
    if at == 0 or abs(at) > len(items) or at != index:
        return None
    return items[at - 1 if at > 0 else at]


@evaluates(For)
def _for(evaluation: Evaluation, node: Any, rules: FeelRules) -> Value:
    results: list[Value] = []
    scope: dict[str, Value] = {}
    with _scope(evaluation, scope):
        for complete in _combinations(evaluation, scope, node.iterators):
            if not complete:
                return None
            if node.partial:  # a copy: a list must not become an item of itself
                evaluation.charge(len(results))
                scope["partial"] = list(results)
            results.append(evaluation.value(node.body))
    return results


@evaluates(Quantified)
def _quantified(evaluation: Evaluation, node: Any, rules: FeelRules) -> Value:
    scope: dict[str, Value] = {}
    with _scope(evaluation, scope):
        values = (
            evaluation.value(node.condition) if complete else None
            for complete in _combinations(evaluation, scope, node.iterators)
        )
        return _any(values) if node.quantifier == "some" else _all(values)


@contextmanager
def _scope(evaluation: Evaluation, scope: dict[str, Value]) -> Iterator[None]:
    evaluation.scopes.append(scope)
    try:
        yield
    finally:
        evaluation.scopes.pop()


def _combinations(
    evaluation: Evaluation, scope: dict[str, Value], iterators: Sequence[tuple[str, Node]]
) -> Iterator[bool]:
    """Set the names of the iterators in the scope, once for each combination. Yields False if one has no items."""
    (name, source), *inner = iterators
    items = _items(evaluation, source)
    if items is None:
        yield False
        return
    for item in items:
        scope[name] = item
        if inner:
            yield from _combinations(evaluation, scope, inner)
        else:
            yield True


def _items(evaluation: Evaluation, source: Node) -> Iterable[Value] | None:
    """What an iterator goes through. Numbers from one to another are not made into a list."""
    value = evaluation.value(source)
    if type(value) is list:
        return value
    if type(value) is not Range:
        return None if value is None else [value]
    if kind(value.start) != NUMBER or value.start != int(value.start) or value.end != int(value.end):
        return None
    start, end = int(value.start), int(value.end)
    return range(start, end + 1) if start <= end else range(start, end - 1, -1)


RULES = FeelRules()
