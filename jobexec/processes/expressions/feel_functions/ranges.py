"""Functions of ranges. A single value is the range from it to itself."""

from __future__ import annotations

from ..comparison import compare
from ..comparison import includes as contains
from ..functions import Functions
from ..values import Range, Value

FUNCTIONS = Functions()
register = FUNCTIONS.register


def _range(value: Value) -> Range:
    return value if type(value) is Range else Range(value, value, True, True)


def _ends_before(left: Range, right: Range) -> bool | None:
    """Whether all of the one lies before all of the other."""
    order = compare(left.end, right.start)
    if order is None:
        return None
    return order < 0 or (order == 0 and not (left.end_included and right.start_included))


@register("before", "point1: any, point2: any")
def before(one: Value, other: Value) -> bool | None:
    return _ends_before(_range(one), _range(other))


@register("after", "point1: any, point2: any")
def after(one: Value, other: Value) -> bool | None:
    return _ends_before(_range(other), _range(one))


@register("meets", "range1: range, range2: range")
def meets(one: Range, other: Range) -> bool | None:
    order = compare(one.end, other.start)
    return None if order is None else order == 0 and one.end_included and other.start_included


@register("met by", "range1: range, range2: range")
def met_by(one: Range, other: Range) -> bool | None:
    return meets(other, one)


@register("overlaps", "range1: range, range2: range")
def overlaps(one: Range, other: Range) -> bool | None:
    apart = (_ends_before(one, other), _ends_before(other, one))
    return None if None in apart else not any(apart)


@register("overlaps before", "range1: range, range2: range")
def overlaps_before(one: Range, other: Range) -> bool | None:
    """Whether the one begins before the other and ends in it."""
    overlap = overlaps(one, other)
    starts, ends = compare(one.start, other.start), compare(one.end, other.end)
    if overlap is None or starts is None or ends is None:
        return None
    begins = starts < 0 or (starts == 0 and one.start_included and not other.start_included)
    return overlap and begins and (ends < 0 or (ends == 0 and (other.end_included or not one.end_included)))


@register("overlaps after", "range1: range, range2: range")
def overlaps_after(one: Range, other: Range) -> bool | None:
    return overlaps_before(other, one)


@register("includes", "range: range, point: any")
def includes(range_: Range, value: Value) -> bool | None:
    if type(value) is not Range:
        return contains(range_, value)
    starts, ends = compare(range_.start, value.start), compare(value.end, range_.end)
    if starts is None or ends is None:
        return None
    return (starts < 0 or (starts == 0 and (range_.start_included or not value.start_included))) and (
        ends < 0 or (ends == 0 and (range_.end_included or not value.end_included))
    )


@register("during", "point: any, range: range")
def during(value: Value, range_: Range) -> bool | None:
    return includes(range_, value)


@register("starts", "point: any, range: range")
def starts(value: Value, range_: Range) -> bool | None:
    inner = _range(value)
    order = compare(inner.start, range_.start)
    if order is None:
        return None
    return order == 0 and inner.start_included == range_.start_included and includes(range_, inner) is True


@register("finishes", "point: any, range: range")
def finishes(value: Value, range_: Range) -> bool | None:
    inner = _range(value)
    order = compare(inner.end, range_.end)
    if order is None:
        return None
    return order == 0 and inner.end_included == range_.end_included and includes(range_, inner) is True


@register("started by", "range: range, point: any")
def started_by(range_: Range, value: Value) -> bool | None:
    return starts(value, range_)


@register("finished by", "range: range, point: any")
def finished_by(range_: Range, value: Value) -> bool | None:
    return finishes(value, range_)


@register("coincides", "point1: any, point2: any")
def coincides(one: Value, other: Value) -> bool | None:
    left, right = _range(one), _range(other)
    orders = (compare(left.start, right.start), compare(left.end, right.end))
    if None in orders:
        return None
    return orders == (0, 0) and (left.start_included, left.end_included) == (right.start_included, right.end_included)
