"""Filters and sort orders of searches, in Camunda 8's format."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from django.db.models import Q

from jobexec.gateways.asks import MOST_VALUES

from .contract import ANY_PAGE, Member, Property, Request, Response, optional, required, several
from .problems import INVALID_ARGUMENT, Refused, invalid
from .values import FLAG, OBJECT, TEXT, Kind, check_length, choice

_LONGEST_PATTERN = 1000

Row: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Filter:
    """A search filter: ``where`` preselects rows, ``matches`` decides by a row's serialised form.

    ``names`` are the members that it tests.
    """

    where: Q
    matches: Callable[[Row], bool]
    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class Order:
    """A sort order for serialised rows; rows without a value come last, in descending order first."""

    sort: Callable[[list[dict[str, Any]]], None]
    names: frozenset[str]


def search_request(name: str, found: Response[...]) -> Request:
    """The request of a search for ``found``: a filter and an order by its searchable members, and a page."""
    members = found.searchable
    return Request(
        name,
        filter=optional(_filter(members), filter_of({}, members)),
        sort=optional(_order(members), _order_of([], members)),
        page=ANY_PAGE,
    )


def criterion(found: Response[...], name: str) -> Member:
    """A member of a request that holds the filter by one member of a response."""
    members = {name: found.members[name]}
    return optional(
        Kind(_ANY, lambda field, value: filter_of({name: value}, members, field.removesuffix(name))),
        filter_of({}, members),
    )


_ANY = {"description": "A plain value, or {$eq, $neq, $in, $notIn, $exists, $like, $gt, $gte, $lt, $lte}."}


def _filter(members: Mapping[str, Property[...]]) -> Kind:
    schema = {"type": "object", "properties": dict.fromkeys(members, _ANY), "additionalProperties": False}
    return Kind(schema, lambda field, value: filter_of(OBJECT.read(field, value), members, f"{field}."))


def filter_of(conditions: Mapping[str, Any], members: Mapping[str, Property[...]], path: str = "filter.") -> Filter:
    """The filter of a search. Unknown members raise Refused: if they were ignored, the search would find too much."""
    where, tests = Q(), []
    for name, value in conditions.items():
        if value is None:
            continue
        member = members.get(name)
        if member is None:
            raise Refused(INVALID_ARGUMENT, f"{path}{name}: expected one of {', '.join(sorted(members))}.")
        for operator, operand in (value if isinstance(value, dict) else {"$eq": value}).items():
            if operand is None:
                continue
            wanted = _operand(f"{path}{name}.{operator}", operator, operand, member.kind)
            if member.column and operator in _LOOKUPS:
                where &= Q(**{f"{member.column}{_LOOKUPS[operator]}": wanted})
            tests.append((name, member.kind, _TESTS[operator], wanted))
    return Filter(
        where,
        lambda row: all(test(_value(row.get(name), kind, test), to) for name, kind, test, to in tests),
        frozenset(name for name, *_ in tests),
    )


_LOOKUPS = {"$eq": "", "$in": "__in", "$gt": "__gt", "$gte": "__gte", "$lt": "__lt", "$lte": "__lte"}


def _ordered(test: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    return lambda value, to: value is not None and test(value, to)


_TESTS: Mapping[str, Callable[[Any, Any], bool]] = {
    "$eq": lambda value, to: bool(value == to),
    "$neq": lambda value, to: bool(value != to),
    "$in": lambda value, to: value in to,
    "$notIn": lambda value, to: value not in to,
    "$exists": lambda value, to: (value is not None) is to,
    "$like": lambda value, to: value is not None and to.fullmatch(str(value)) is not None,
    "$gt": _ordered(lambda value, to: bool(value > to)),
    "$gte": _ordered(lambda value, to: bool(value >= to)),
    "$lt": _ordered(lambda value, to: bool(value < to)),
    "$lte": _ordered(lambda value, to: bool(value <= to)),
}


def _operand(field: str, operator: str, value: Any, kind: Kind) -> Any:
    if operator not in _TESTS:
        raise Refused(INVALID_ARGUMENT, f"{field}: expected one of {', '.join(_TESTS)}.")
    if operator == "$exists":
        return FLAG.read(field, value)
    if operator == "$like":
        if len(TEXT.read(field, value)) > _LONGEST_PATTERN:
            raise invalid(field, f"at most {_LONGEST_PATTERN} characters", value)
        return _pattern(value)
    if operator in ("$in", "$notIn"):
        if not isinstance(value, list):
            raise invalid(field, "a list", value)
        check_length(field, value, MOST_VALUES)
        return frozenset(kind.read(field, each) for each in value)
    return kind.read(field, value)


def _pattern(text: str) -> re.Pattern[str]:
    """Compile a ``$like`` pattern: ``*`` matches any text, ``?`` a single character; a backslash escapes them.

    The text between two stars is matched at its first occurrence, without backtracking. The result is the same, and the
    time is bounded by the length of the pattern times that of the text.
    """
    parts = [""]
    for sign in re.findall(r"\\[*?\\]|.", text, re.DOTALL):
        if sign == "*":
            parts.append("")
        else:
            parts[-1] += "." if sign == "?" else re.escape(sign[-1])
    if len(parts) == 1:
        return re.compile(parts[0], re.DOTALL)
    first, *between, last = parts
    return re.compile(first + "".join(f"(?>.*?{part})" for part in between if part) + f".*{last}", re.DOTALL)


def _value(value: Any, kind: Kind, test: Callable[[Any, Any], bool]) -> Any:
    return value if value is None or test is _TESTS["$like"] else kind.comparable(value)


def _order(members: Mapping[str, Property[...]]) -> Kind:
    part = Request(
        field=required(choice(members, f"one of {', '.join(sorted(members))}")),
        order=optional(choice(("ASC", "DESC"), "ASC or DESC", str.upper), "ASC"),
    )

    parts = several(part, len(members))

    def read(field: str, value: Any) -> Order:
        return _order_of([(each["field"], each["order"] == "DESC") for each in parts.read(field, value)], members)

    return Kind(parts.schema, read)


def _order_of(parts: Sequence[tuple[str, bool]], members: Mapping[str, Property[...]]) -> Order:
    def sort(rows: list[dict[str, Any]]) -> None:
        for name, is_descending in reversed(parts):
            rows.sort(key=partial(_place, name, members[name].kind), reverse=is_descending)

    return Order(sort, frozenset(name for name, _ in parts))


def columns_of(members: Mapping[str, Property[...]], names: Collection[str]) -> frozenset[str]:
    """The columns that these members need."""
    return frozenset(column for name in names for column in members[name].columns)


def _place(name: str, kind: Kind, row: Row) -> tuple[bool, Any]:
    value = row.get(name)
    return (True, 0) if value is None else (False, kind.comparable(value))
