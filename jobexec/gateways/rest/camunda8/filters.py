"""Filters, sort orders and pages of searches, in Camunda 8's format."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Q
from django.utils.dateparse import parse_datetime

from jobexec.gateways.asks import MOST_VALUES

from .body import Body, check_length
from .problems import INVALID_ARGUMENT, Refused, invalid

TEXT, KEY, NUMBER, TIME, FLAG = "text", "key", "number", "time", "flag"
_DEFAULT_LIMIT, _MOST_ROWS = 100, 10_000
_LONGEST_PATTERN = 1000

Shown = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Member:
    """A member for filters and sorting: the kind of its values, and the column that holds them unchanged, if any."""

    kind: str
    column: str = ""
    needs: tuple[str, ...] = ()
    """The columns that it is computed from, if no column holds it unchanged."""


@dataclass(frozen=True, slots=True)
class Filter:
    """A search filter: ``where`` preselects rows, ``matches`` decides by a row's serialised form.

    ``names`` are the members that it tests.
    """

    where: Q
    matches: Callable[[Shown], bool]
    names: frozenset[str]


def filter_of(body: Body, members: Mapping[str, Member]) -> Filter:
    """The filter of a search. Unknown members raise Refused: if they were ignored, the search would find too much."""
    where, tests = Q(), []
    for name, value in body.part("filter").items():
        member = members.get(name)
        if member is None:
            raise Refused(INVALID_ARGUMENT, f"filter.{name}: expected one of {', '.join(sorted(members))}.")
        conditions = value if isinstance(value, dict) else {"$eq": value}
        for operator, operand in conditions.items():
            if operand is None:
                continue
            wanted = _operand(f"filter.{name}.{operator}", operator, operand, member.kind)
            if member.column and operator in _LOOKUPS:
                where &= Q(**{f"{member.column}{_LOOKUPS[operator]}": _stored(wanted, member.kind)})
            tests.append((name, member.kind, _TESTS[operator], wanted))
    return Filter(
        where,
        lambda shown: all(test(_value(shown.get(name), kind), to) for name, kind, test, to in tests),
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


def _operand(field: str, operator: str, value: Any, kind: str) -> Any:
    if operator not in _TESTS:
        raise Refused(INVALID_ARGUMENT, f"{field}: expected one of {', '.join(_TESTS)}.")
    if operator == "$exists":
        return _checked(field, value, FLAG)
    if operator == "$like":
        if len(_checked(field, value, TEXT)) > _LONGEST_PATTERN:
            raise invalid(field, f"at most {_LONGEST_PATTERN} characters", value)
        return _pattern(value)
    if operator in ("$in", "$notIn"):
        if not isinstance(value, list):
            raise invalid(field, "a list", value)
        check_length(field, value, MOST_VALUES)
        return frozenset(_checked(field, each, kind) for each in value)
    return _checked(field, value, kind)


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


def _checked(field: str, value: Any, kind: str) -> Any:
    if kind == TIME:
        moment = _moment(value)
        if moment is None:
            raise invalid(field, "a date-time with a time zone (ISO 8601)", value)
        return moment
    if kind == KEY:
        if not (isinstance(value, (str, int)) and re.fullmatch(r"-?[0-9]{1,25}", str(value))):
            raise invalid(field, "a decimal number", value)
        return str(value)
    expected: dict[str, tuple[type, str]] = {
        TEXT: (str, "a text"),
        NUMBER: (int, "a whole number"),
        FLAG: (bool, "true or false"),
    }
    type, words = expected[kind]
    if not isinstance(value, type) or (type is int and isinstance(value, bool)):
        raise invalid(field, words, value)
    return value


def _moment(value: Any) -> datetime | None:
    try:
        moment = parse_datetime(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return moment if moment is not None and moment.utcoffset() is not None else None


def moment_of(field: str, value: Any) -> datetime:
    """Parse a date-time. Raises Refused."""
    moment: datetime = _checked(field, value, TIME)
    return moment


def _value(value: Any, kind: str) -> Any:
    return _moment(value) if kind == TIME else value


def _stored(value: Any, kind: str) -> Any:
    if kind != KEY:
        return value
    several = isinstance(value, frozenset)
    bounded = [max(-(2**63), min(2**63 - 1, int(each))) for each in (value if several else [value])]
    return bounded if several else bounded[0]


@dataclass(frozen=True, slots=True)
class Order:
    """A sort order for serialised rows; rows without a value come last, in descending order first."""

    sort: Callable[[list[dict[str, Any]]], None]
    names: frozenset[str]


def order_of(body: Body, members: Mapping[str, Member]) -> Order:
    """The order of a search, with at most as many sort fields as there are members."""
    orders = []
    for part in body.parts("sort", most=len(members)):
        name = part.text("field")
        if name not in members:
            raise invalid("sort.field", f"one of {', '.join(sorted(members))}", name)
        direction = str(part.text("order", "ASC")).upper()
        if direction not in ("ASC", "DESC"):
            raise invalid("sort.order", "ASC or DESC", direction)
        orders.append((name, members[name].kind, direction == "DESC"))

    def sort(rows: list[dict[str, Any]]) -> None:
        for name, kind, down in reversed(orders):
            rows.sort(key=lambda row: _place(row.get(name), kind), reverse=down)

    return Order(sort, frozenset(name for name, *_ in orders))


def columns_of(members: Mapping[str, Member], names: Collection[str]) -> frozenset[str]:
    """The columns that these members need."""
    return frozenset(column for name in names for column in members[name].needs or (members[name].column,) if column)


def _place(value: Any, kind: str) -> tuple[bool, Any]:
    if value is None:
        return True, 0
    return False, int(value) if kind == KEY else _value(value, kind)


def page_of(
    body: Body,
    rows: Sequence[dict[str, Any]],
    more: bool,
    complete: Callable[[Sequence[dict[str, Any]]], list[dict[str, Any]]] = list,
) -> dict[str, Any]:
    """The requested page of the rows, in the format of all search results.

    ``more``: there are further rows that the search has not read. ``complete`` serialises the rows of the page in full.
    """
    page = body.part("page")
    limit = page.integer("limit", _DEFAULT_LIMIT, least=0, most=_MOST_ROWS)
    begin = page.integer("from", 0, least=0)
    if page.has("after"):
        begin = _position("page.after", page.text("after"))
    elif page.has("before"):
        end = _position("page.before", page.text("before"))
        begin, limit = max(0, end - limit), min(limit, end)
    part = rows[begin : begin + limit]
    return {
        "items": complete(part),
        "page": {
            "totalItems": len(rows),
            "hasMoreTotalItems": more,
            "startCursor": _cursor(begin) if part else None,
            "endCursor": _cursor(begin + len(part)) if part else None,
        },
    }


def _cursor(position: int) -> str:
    return base64.b64encode(str(position).encode()).decode()


def _position(field: str, cursor: str) -> int:
    try:
        position = int(base64.b64decode(cursor, validate=True).decode())
    except (binascii.Error, ValueError):
        position = -1
    if position < 0:
        raise invalid(field, "a cursor of an earlier answer", cursor)
    return position
