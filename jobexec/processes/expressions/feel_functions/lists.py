"""Functions of lists. A function that looks at pairs of items, or into nested lists, pays for each look."""

from __future__ import annotations

from decimal import DecimalException
from typing import Any

from ..comparison import check_level, equal, in_order
from ..functions import Functions
from ..numbers import DECIMALS, plain, to_decimal
from ..values import NUMBER, Number, Value, kind

FUNCTIONS = Functions()
register = FUNCTIONS.register


@register("list contains", "list: list, element: any")
def list_contains(evaluation: Any, items: list[Value], element: Value) -> bool:
    return any(equal(evaluation, item, element) is True for item in items)


@register("count", "list: list")
def count(items: list[Value]) -> int:
    return len(items)


@register("is empty", "list: list")
def is_empty(items: list[Value]) -> bool:
    return not items


@register("min", "list: list", variadic=True)
def minimum(items: list[Value]) -> Value:
    ordered = in_order(items) if items else None
    return ordered[0] if ordered else None


@register("max", "list: list", variadic=True)
def maximum(items: list[Value]) -> Value:
    ordered = in_order(items) if items else None
    return ordered[-1] if ordered else None


@register("sum", "list: list", variadic=True)
def total(items: list[Value]) -> Number | None:
    if not items or not _are_numbers(items):
        return None
    try:
        sum_ = to_decimal(0)
        for item in items:
            sum_ = DECIMALS.add(sum_, to_decimal(item))
        return plain(sum_)
    except DecimalException:
        return None


@register("product", "list: list", variadic=True)
def product(items: list[Value]) -> Number | None:
    if not items or not _are_numbers(items):
        return None
    try:
        result = to_decimal(1)
        for item in items:
            result = DECIMALS.multiply(result, to_decimal(item))
        return plain(result)
    except DecimalException:
        return None


@register("mean", "list: list", variadic=True)
def mean(items: list[Value]) -> Number | None:
    sum_ = total(items)
    return None if sum_ is None else plain(DECIMALS.divide(to_decimal(sum_), to_decimal(len(items))))


@register("median", "list: list", variadic=True)
def median(items: list[Value]) -> Number | None:
    ordered = in_order(items) if items and _are_numbers(items) else None
    if ordered is None:
        return None
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else mean(ordered[half - 1 : half + 1])


@register("stddev", "list: list", variadic=True)
def standard_deviation(items: list[Value]) -> Number | None:
    """Of a sample."""
    average = mean(items)
    if average is None or len(items) < 2:
        return None
    try:
        differences = [DECIMALS.subtract(to_decimal(item), to_decimal(average)) for item in items]
        squares = total([DECIMALS.multiply(difference, difference) for difference in differences])
        assert squares is not None
        return plain(DECIMALS.sqrt(DECIMALS.divide(to_decimal(squares), to_decimal(len(items) - 1))))
    except DecimalException:
        return None


@register("mode", "list: list", variadic=True)
def mode(evaluation: Any, items: list[Value]) -> list[Value] | None:
    """The most frequent numbers, in their order."""
    if not _are_numbers(items):
        return None
    distinct = distinct_values(evaluation, items)
    counts = [len(index_of(evaluation, items, item)) for item in distinct]
    return in_order([item for item, times in zip(distinct, counts, strict=True) if times == max(counts)]) or []


@register("all", "list: list", variadic=True)
def all_(items: list[Value]) -> bool | None:
    if any(item is False for item in items):
        return False
    return True if all(item is True for item in items) else None


@register("any", "list: list", variadic=True)
def any_(items: list[Value]) -> bool | None:
    if any(item is True for item in items):
        return True
    return False if all(item is False for item in items) else None


@register("sublist", "list: list, start position: number, length?: number")
def sublist(items: list[Value], start: Number, length: Number | None = None) -> list[Value] | None:
    at = int(start)
    if at == 0 or abs(at) > len(items) or (length is not None and length < 0):
        return None
    first = at - 1 if at > 0 else len(items) + at
    return items[first:] if length is None else items[first : first + int(length)]


@register("append", "list: list, item: any", repeats=True)
def append(items: list[Value], *more: Value) -> list[Value]:
    return [*items, *more]


@register("concatenate", "lists: list", variadic=True)
def concatenate(lists: list[Value]) -> list[Value] | None:
    if not all(type(items) is list for items in lists):
        return None
    return [item for items in lists for item in items]


@register("insert before", "list: list, position: number, newItem: any")
def insert_before(items: list[Value], position: Number, item: Value) -> list[Value] | None:
    at = int(position)
    if at == 0 or abs(at) > len(items):
        return None
    first = at - 1 if at > 0 else len(items) + at
    return [*items[:first], item, *items[first:]]


@register("remove", "list: list, position: number")
def remove(items: list[Value], position: Number) -> list[Value] | None:
    at = int(position)
    if at == 0 or abs(at) > len(items):
        return None
    first = at - 1 if at > 0 else len(items) + at
    return [*items[:first], *items[first + 1 :]]


@register("reverse", "list: list")
def reverse(items: list[Value]) -> list[Value]:
    return items[::-1]


@register("index of", "list: list, match: any")
def index_of(evaluation: Any, items: list[Value], match: Value) -> list[int]:
    return [at for at, item in enumerate(items, 1) if _same(evaluation, item, match)]


@register("distinct values", "list: list")
def distinct_values(evaluation: Any, items: list[Value]) -> list[Value]:
    distinct: list[Value] = []
    for item in items:
        if not any(_same(evaluation, item, other) for other in distinct):
            distinct.append(item)
    return distinct


@register("duplicate values", "list: list")
def duplicate_values(evaluation: Any, items: list[Value]) -> list[Value]:
    return [item for item in distinct_values(evaluation, items) if len(index_of(evaluation, items, item)) > 1]


@register("union", "lists: list", variadic=True)
def union(evaluation: Any, lists: list[Value]) -> list[Value] | None:
    items = concatenate(lists)
    return None if items is None else distinct_values(evaluation, items)


@register("partition", "list: list, size: number")
def partition(items: list[Value], size: Number) -> list[Value] | None:
    """Lists of that many items each, the last one of what is left."""
    length = int(size)
    return [items[at : at + length] for at in range(0, len(items), length)] if length > 0 else None


@register("flatten", "list: list")
def flatten(evaluation: Any, items: list[Value]) -> list[Value]:
    flat: list[Value] = []
    _flatten(evaluation, items, flat, 1)
    return flat


@register("sort", "list: list")
def sort(items: list[Value]) -> list[Value] | None:
    return in_order(items) if items else []


def _flatten(evaluation: Any, items: list[Value], flat: list[Value], level: int) -> None:
    check_level(level)
    evaluation.charge(len(items))
    for item in items:
        if type(item) is list:
            _flatten(evaluation, item, flat, level + 1)
        else:
            flat.append(item)


def _same(evaluation: Any, left: Value, right: Value) -> bool:
    evaluation.charge(1)
    return equal(evaluation, left, right) is True


def _are_numbers(items: list[Value]) -> bool:
    return all(kind(item) == NUMBER for item in items)
