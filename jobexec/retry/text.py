"""The text form of a retry plan: parsing and formatting it. An invalid text is a ValueError."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import NamedTuple

from jobexec.retry.intervals import Growth, Interval, fixed, format_interval, parse_interval

UNLIMITED = 2**31 - 1
MAX_TEXT_LENGTH = 255  # what a varchar column holds on every database
DEFAULT_MAXIMUM = timedelta(days=1)
DEFAULT_JITTER = 0.1

_FLOAT = r"[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?"
_REPEAT = re.compile(r"R([0-9]*)/(.*)", re.DOTALL)
_GROWTH = re.compile(
    rf"(?P<first>[^*]*)\*(?P<factor>{_FLOAT})"
    rf"(?:\.\.(?P<maximum>P[^~]*))?(?:~(?P<jitter>{_FLOAT}))?"
)


class Parts(NamedTuple):
    """The parts of a retry plan."""

    attempts: int
    intervals: tuple[Interval, ...]
    growth: Growth | None = None


def parse_text(text: str) -> Parts:
    if len(text) > MAX_TEXT_LENGTH:
        raise ValueError(f"it is longer than {MAX_TEXT_LENGTH} characters")
    count, body = None, text.strip()
    if repeat := _REPEAT.fullmatch(body):
        count, body = _count(repeat[1]), repeat[2]
    if match := _GROWTH.fullmatch(body):
        return _growing(count, match)
    # A comma before a P separates intervals; one before a digit is ISO 8601's decimal sign.
    intervals = tuple(parse_interval(part.strip()) for part in re.split(r",(?=\s*[+-]?P)", body))
    if count is not None and len(intervals) > 1:
        raise ValueError("a list of intervals takes no R…/: it has one attempt more than intervals")
    return Parts(count or len(intervals) + 1, intervals)


def format_parts(parts: Parts) -> str:
    """The text that :func:`parse_text` converts back to equal parts."""
    if len(parts.intervals) > 1:
        return ",".join(map(format_interval, parts.intervals))
    count = "" if parts.attempts == UNLIMITED else parts.attempts
    text = f"R{count}/{format_interval(parts.intervals[0])}"
    if parts.growth is None:
        return text
    factor, maximum, jitter = parts.growth.factor, parts.growth.maximum, parts.growth.jitter
    return f"{text}*{_number(factor)}..{format_interval(maximum)}~{_number(jitter)}"


def _count(digits: str) -> int:
    if not digits:
        return UNLIMITED
    # Ten digits are enough for every number allowed, and int() refuses texts of thousands.
    count = int(digits) if len(digits) <= 10 else UNLIMITED + 1
    if count < 1:
        raise ValueError("the attempts must be at least 1: the first execution counts (R1/… never retries)")
    return count


def _growing(count: int | None, match: re.Match[str]) -> Parts:
    first, maximum, jitter = match["first"], match["maximum"], match["jitter"]
    growth = Growth(
        factor=float(match["factor"]),
        maximum=DEFAULT_MAXIMUM if maximum is None else fixed(maximum),
        jitter=DEFAULT_JITTER if jitter is None else float(jitter),
    )
    if count is None:
        raise ValueError("an exponential plan must begin with R and the attempts")
    return Parts(count, (fixed(first),), growth)


def _number(value: float) -> str:
    return repr(int(value)) if value.is_integer() and value < 1e15 else repr(value)
