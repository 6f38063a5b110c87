"""The intervals of a retry plan. All errors are ValueErrors that explain what is wrong."""

from __future__ import annotations

import math
import random
import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeAlias

import isodate

#: A timedelta, or an isodate.Duration if it has months or years (the length of P1M depends on the month).
Interval: TypeAlias = Any

#: No interval is longer than a century, so that all databases can store every due date.
LONGEST = timedelta(days=36525)

_NUMBER = "[0-9]+(?:[.,][0-9]+)?"
# isodate also takes P0.5M (as no time at all), PT and P0003-06-04, which no author means in a retry plan.
_ISO = re.compile(
    rf"P(?=[0-9T])(?:[0-9]+Y)?(?:[0-9]+M)?(?:{_NUMBER}W)?(?:{_NUMBER}D)?"
    rf"(?:T(?=[0-9])(?:{_NUMBER}H)?(?:{_NUMBER}M)?(?:{_NUMBER}S)?)?"
)


def parse_interval(text: str) -> Interval:
    """An ISO 8601 duration as a timedelta, or as an isodate.Duration if it has months or years."""
    if text.startswith("-"):
        raise ValueError(f"the duration {text!r} is negative")
    if not _ISO.fullmatch(text):
        raise ValueError(f"{text!r} is not an ISO 8601 duration")
    try:
        interval = isodate.parse_duration(text)
    except (OverflowError, ValueError) as error:
        raise ValueError(f"{text!r} is not an ISO 8601 duration that can be computed") from error
    return checked(interval)


def checked(interval: Interval) -> Interval:
    """The interval itself, if it is neither negative nor longer than :data:`LONGEST`; otherwise ValueError."""
    if isinstance(interval, timedelta):
        days: float = interval / timedelta(days=1)
    else:
        days = float(interval.years) * 365.25 + float(interval.months) * 30.4375 + interval.tdelta / timedelta(days=1)
    if days < 0:
        raise ValueError(f"the duration {interval!r} is negative")
    if days > LONGEST.days:
        raise ValueError(f"the duration {interval!s} is longer than a century")
    return interval


def fixed(value: timedelta | float | str) -> timedelta:
    """A timedelta from a timedelta, a number of seconds, or an ISO 8601 duration without months and years."""
    if isinstance(value, str):
        interval = parse_interval(value)
        if not isinstance(interval, timedelta):
            raise ValueError(f"{value!r} has months or years, whose length varies")
        return interval
    if isinstance(value, timedelta):
        return _timedelta(checked(value))
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ValueError(f"{value!r} is neither a timedelta nor a number of seconds")
    if value > LONGEST.total_seconds():  # before timedelta() overflows
        raise ValueError(f"the duration {value!r} is longer than a century")
    return _timedelta(checked(timedelta(seconds=max(value, -1.0))))


def length(interval: Interval, start: datetime) -> timedelta:
    """The length of the interval when it begins at ``start``."""
    return _timedelta((start + interval) - start)


def format_interval(interval: Interval) -> str:
    """The ISO 8601 text that :func:`parse_interval` converts back to an equal interval."""
    if isinstance(interval, timedelta):
        calendar, rest = "", interval
    else:
        calendar = _parts(Y=int(interval.years), M=int(interval.months))
        rest = interval.tdelta
    minutes, seconds = divmod(rest.seconds, 60)
    hours, minutes = divmod(minutes, 60)
    fraction = f".{rest.microseconds:06}".rstrip("0") if rest.microseconds else ""
    date = calendar + _parts(D=rest.days)
    time = _parts(H=hours, M=minutes) + (f"{seconds}{fraction}S" if seconds or fraction else "")
    return f"P{date}T{time}" if time else f"P{date}" if date else "PT0S"


@dataclass(frozen=True, slots=True)
class Growth:
    """How the interval of an exponential plan grows; see RetryPlan.exponential()."""

    factor: float
    maximum: timedelta
    jitter: float

    def __post_init__(self) -> None:
        if not 1 <= self.factor < math.inf:
            raise ValueError(f"the factor must be at least 1, got {self.factor!r}")
        if not 0 <= self.jitter <= 1:
            raise ValueError(f"the jitter must be from 0 to 1, got {self.jitter!r}")

    def interval(self, first: timedelta, failures: int) -> timedelta:
        """The interval after ``failures`` failures: at most the maximum, then shortened at random."""
        try:
            seconds = first.total_seconds() * self.factor ** (failures - 1)
        except OverflowError:
            seconds = math.inf
        seconds = min(seconds, self.maximum.total_seconds())
        return timedelta(seconds=seconds * (1 - self.jitter * random.random()))


def _parts(**values: int) -> str:
    return "".join(f"{value}{unit}" for unit, value in values.items() if value)


def _timedelta(value: Any) -> timedelta:
    assert isinstance(value, timedelta)
    return value
