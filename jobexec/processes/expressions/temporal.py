"""Dates, times and durations: their texts and their arithmetic, as FEEL has them.

What Python cannot represent (years beyond 9999, a duration of a million years) is None, which FEEL calls null. Moments
with a time zone are compared and subtracted as instants; Python alone would compare the clocks on the wall.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from functools import wraps
from typing import ParamSpec, TypeVar
from zoneinfo import ZoneInfo

from .values import Months

P = ParamSpec("P")
R = TypeVar("R")

_DATE = r"(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)"
_ZONE = r"(?P<zone>Z|[+-]\d\d:\d\d(?::\d\d)?|@[A-Za-z]\w*(?:[/+-]\w+)*)?"
_TIME = rf"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)(?:\.(?P<fraction>\d{{1,9}})\d*)?{_ZONE}"
_DATE_TEXT = re.compile(_DATE, re.ASCII)
_TIME_TEXT = re.compile(f"T?{_TIME}", re.ASCII)
_DATE_TIME_TEXT = re.compile(f"{_DATE}(?:T{_TIME})?", re.ASCII)
_MONTHS_TEXT = re.compile(r"(?P<sign>-?)P(?=\d)(?:(?P<years>\d{1,9})Y)?(?:(?P<months>\d{1,9})M)?", re.ASCII)
_DAYS_TEXT = re.compile(
    r"(?P<sign>-?)P(?=[\dT])(?:(?P<weeks>\d{1,9})W)?(?:(?P<days>\d{1,9})D)?"
    r"(?:T(?=\d)(?:(?P<hours>\d{1,9})H)?(?:(?P<minutes>\d{1,9})M)?(?:(?P<seconds>\d{1,9}(?:\.\d{1,9})?)S)?)?",
    re.ASCII,
)


def _none_if_impossible(function: Callable[P, R]) -> Callable[P, R | None]:
    @wraps(function)
    def answer(*args: P.args, **kwargs: P.kwargs) -> R | None:
        try:
            return function(*args, **kwargs)
        except (ValueError, OverflowError):
            return None

    return answer


@_none_if_impossible
def parse_date(text: str) -> date | None:
    found = _DATE_TEXT.fullmatch(text)
    return _date(found) if found else None


@_none_if_impossible
def parse_time(text: str) -> time | None:
    found = _TIME_TEXT.fullmatch(text)
    return _time(found) if found else None


@_none_if_impossible
def parse_date_time(text: str) -> datetime | None:
    """Also takes a date alone: its midnight."""
    found = _DATE_TIME_TEXT.fullmatch(text)
    if not found:
        return None
    return datetime.combine(_date(found), _time(found) if found["hour"] else time())


@_none_if_impossible
def parse_duration(text: str) -> timedelta | Months | None:
    found = _MONTHS_TEXT.fullmatch(text)
    if found:
        months = int(found["years"] or 0) * 12 + int(found["months"] or 0)
        return Months(-months if found["sign"] else months)
    found = _DAYS_TEXT.fullmatch(text)
    if not found:
        return None
    parts = {name: float(value) for name, value in found.groupdict().items() if value and name != "sign"}
    length = timedelta(**parts)
    return -length if found["sign"] else length


def parse_temporal(text: str) -> date | time | datetime | timedelta | Months | None:
    """Of any kind, as in FEEL's ``@"2026-01-01"``."""
    for parse in (parse_date, parse_time, parse_date_time, parse_duration):
        value = parse(text)
        if value is not None:
            return value
    return None


def format_date_time(value: datetime) -> str:
    return f"{value.date().isoformat()}T{format_time(value)}"


def format_time(value: time | datetime) -> str:
    fraction = f".{value.microsecond:06}".rstrip("0") if value.microsecond else ""
    return f"{value:%H:%M:%S}{fraction}{_format_zone(value)}"


def format_duration(value: timedelta | Months) -> str:
    if isinstance(value, Months):
        years, months = divmod(abs(value.months), 12)
        parts = _parts(Y=years, M=months) or "0M"
        return f"{'-' if value.months < 0 else ''}P{parts}"
    length = abs(value)
    hours, minutes, seconds = clock_parts(length)
    fraction = f".{length.microseconds:06}".rstrip("0") if length.microseconds else ""
    clock = _parts(H=hours, M=minutes) + (f"{seconds}{fraction}S" if seconds or fraction else "")
    parts = _parts(D=length.days) + (f"T{clock}" if clock else "") or "T0S"
    return f"{'-' if value < timedelta(0) else ''}P{parts}"


def clock_parts(length: timedelta) -> tuple[int, int, int]:
    """Hours, minutes and seconds of a positive duration, without its days."""
    minutes, seconds = divmod(length.seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return hours, minutes, seconds


def is_zoned(value: time | datetime) -> bool:
    return value.tzinfo is not None


def instants(left: datetime, right: datetime) -> tuple[timedelta, timedelta] | None:
    """Both as time since the same moment; None if only one has a zone. Their instants may lie beyond the year 9999."""
    if is_zoned(left) != is_zoned(right):
        return None
    first, second = (_since_year_one(value) for value in (left, right))
    return first, second


def clocks(left: time, right: time) -> tuple[timedelta, timedelta] | None:
    """Both as time since the same midnight; None if it is not the same for both.

    Without a date, the offset of a named zone is unknown. So such a time is comparable in its own zone only.
    """
    known = left.utcoffset() is not None and right.utcoffset() is not None
    if not known and (is_zoned(left) != is_zoned(right) or zone_name(left) != zone_name(right)):
        return None
    return _since_midnight(left), _since_midnight(right)


@_none_if_impossible
def add_months(value: date, months: int) -> date:
    """The same day of a later month, or the last one of a month that is shorter. Keeps the type of the value."""
    year, month = divmod(value.year * 12 + value.month - 1 + months, 12)
    if not 1 <= year <= 9999:
        raise OverflowError
    return value.replace(year=year, month=month + 1, day=min(value.day, calendar.monthrange(year, month + 1)[1]))


@_none_if_impossible
def add_time(value: datetime, length: timedelta) -> datetime:
    return (value.astimezone(UTC) + length).astimezone(value.tzinfo) if is_zoned(value) else value + length


@_none_if_impossible
def in_zone(value: datetime, zone: tzinfo | None) -> datetime:
    return value.astimezone(zone)


@_none_if_impossible
def add_to_date(value: date, length: timedelta) -> date:
    return (datetime.combine(value, time()) + length).date()


def add_to_clock(value: time, length: timedelta) -> time:
    """The time of day afterwards; 23:00 and two hours are 01:00."""
    moment = datetime.combine(date(2000, 1, 1), value.replace(tzinfo=None)) + timedelta(seconds=length.seconds)
    return (moment + timedelta(microseconds=length.microseconds)).time().replace(tzinfo=value.tzinfo)


def difference(pair: tuple[timedelta, timedelta] | None) -> timedelta | None:
    return None if pair is None else pair[0] - pair[1]


def months_between(start: date, end: date) -> Months:
    """Whole months from one date to the other."""
    if end < start:
        return Months(-months_between(end, start).months)
    months = (end.year - start.year) * 12 + end.month - start.month
    return Months(months - (end.day < start.day))


def zone_name(value: time | datetime) -> str | None:
    return value.tzinfo.key if isinstance(value.tzinfo, ZoneInfo) else None


def _since_year_one(value: datetime) -> timedelta:
    return value.replace(tzinfo=None) - datetime.min - (value.utcoffset() or timedelta(0))


def _since_midnight(value: time) -> timedelta:
    passed = timedelta(hours=value.hour, minutes=value.minute, seconds=value.second, microseconds=value.microsecond)
    return passed - (value.utcoffset() or timedelta(0))


def _date(found: re.Match[str]) -> date:
    return date(int(found["year"]), int(found["month"]), int(found["day"]))


def _time(found: re.Match[str]) -> time:
    microseconds = int((found["fraction"] or "0").ljust(6, "0")[:6])
    hour, minute, second = int(found["hour"]), int(found["minute"]), int(found["second"])
    return time(hour, minute, second, microseconds, tzinfo=_zone(found["zone"]))


def _zone(text: str | None) -> tzinfo | None:
    if not text:
        return None
    if text == "Z":
        return UTC
    if text.startswith("@"):
        try:
            return ZoneInfo(text[1:])
        except (KeyError, OSError):  # unknown; the name of a folder
            raise ValueError from None
    hours, minutes, *seconds = (int(part) for part in text[1:].split(":"))
    offset = timedelta(hours=hours, minutes=minutes, seconds=sum(seconds))
    return timezone(-offset if text.startswith("-") else offset)


def _format_zone(value: time | datetime) -> str:
    name = zone_name(value)
    if name is not None:
        return f"@{name}"
    offset = value.utcoffset()
    if offset is None:
        return ""
    if not offset:
        return "Z"
    hours, minutes, seconds = clock_parts(abs(offset))
    text = f"{'-' if offset < timedelta(0) else '+'}{hours:02}:{minutes:02}"
    return f"{text}:{seconds:02}" if seconds else text


def _parts(**values: int) -> str:
    return "".join(f"{value}{unit}" for unit, value in values.items() if value)
