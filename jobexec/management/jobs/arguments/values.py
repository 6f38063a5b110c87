"""Argparse types; each raises ArgumentTypeError with a message that names the expected format."""

from __future__ import annotations

import re
from argparse import ArgumentTypeError
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone
from django.utils.dateparse import parse_date, parse_datetime

from jobexec import clock
from jobexec.json_values import TooMuchJSON, read_json, shown

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_LONGEST = timedelta(days=36525)
_LENGTH = re.compile(r"(\d+(?:\.\d+)?) ?([smhd])")
_FROM_NOW = re.compile(rf"(?P<sign>[+-]|in )?(?P<length>{_LENGTH.pattern})(?P<ago> ago)?")
_EXPECTED = "expected a date such as 2026-03-01T12:00, 'now', or a time from now such as +2h, -30m, '2h ago'"


def count(text: str) -> int:
    """A whole number of at least 0."""
    if not text.isdecimal():
        raise ArgumentTypeError(f"expected a number of at least 0, got {text!r}")
    return int(text)


def _json_of(name: str, *kinds: type) -> Callable[[str], Any]:
    """An argparse type for JSON of these Python types."""

    def parsed(text: str) -> Any:
        try:
            value = read_json(text)
        except TooMuchJSON as error:
            raise ArgumentTypeError(str(error)) from None
        except ValueError as error:
            raise ArgumentTypeError(f"expected {name}, got {shown(text)}: {error}") from None
        if not isinstance(value, kinds):
            raise ArgumentTypeError(f"expected {name}, got {shown(text)}")
        return value

    return parsed


json_value = _json_of("JSON", object)
json_object = _json_of("a JSON object", dict)
json_object_or_list = _json_of("a JSON object or list", dict, list)


def length(text: str) -> timedelta:
    """A duration: 90s, 15m, 2h, 7d."""
    found = _LENGTH.fullmatch(text)
    try:
        span = _span(*found.groups()) if found else None
    except OverflowError:
        span = None
    if not span or span > _LONGEST:
        raise ArgumentTypeError(f"expected a duration such as 90s, 15m, 2h or 7d, got {text!r}")
    return span


def moment(text: str) -> datetime:
    """A date, optionally with a time and a time zone (default: the current one); ``now``; or a time from now."""
    if text == "now":
        return clock.now()
    try:
        found = parse_datetime(text) or _date(text) or _from_now(text)
        if found is not None:
            return found if found.tzinfo else timezone.make_aware(found)
    except (ValueError, OverflowError):  # well formed, but not a valid moment
        pass
    raise ArgumentTypeError(f"{_EXPECTED}; got {text!r}")


def _date(text: str) -> datetime | None:
    day = parse_date(text)
    return None if day is None else datetime(day.year, day.month, day.day)


def _from_now(text: str) -> datetime | None:
    found = _FROM_NOW.fullmatch(text)
    if found is None or bool(found["sign"]) == bool(found["ago"]):  # 2h alone is ambiguous
        return None
    number, unit = _LENGTH.fullmatch(found["length"]).groups()  # type: ignore[union-attr]
    back = found["ago"] or found["sign"] == "-"
    return clock.now() - _span(number, unit) if back else clock.now() + _span(number, unit)


def _span(number: str, unit: str) -> timedelta:
    return timedelta(**{_UNITS[unit]: float(number)})
