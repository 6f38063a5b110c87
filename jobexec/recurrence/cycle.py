"""ISO 8601 cycles: R[n]/<duration>, R[n]/<start>/<duration>, R[n]/<duration>/<end>, R[n]/<start>/<end>."""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, tzinfo

from jobexec.retry.intervals import parse_interval

from .base import Recurrence
from .zones import at_wall_clock

_FORM = re.compile(r"R([0-9]*)/([^/]+)(?:/([^/]+))?")
_MOST = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Step:
    """The interval between two times: months by the calendar of the time zone, and then a fixed duration."""

    months: int
    rest: timedelta

    def added(self, origin: datetime, times: int, zone: tzinfo) -> datetime:
        """The moment ``times`` steps after the origin. Raises OverflowError outside of the years 1 to 9999."""
        if not self.months:
            return origin + self.rest * times
        wall = origin.astimezone(zone).replace(tzinfo=None, fold=0)
        return at_wall_clock(_months_later(wall, self.months * times) + self.rest * times, zone)


@dataclass(frozen=True, slots=True)
class Cycle(Recurrence):
    """Time number k is ``origin + k * step`` for k from ``first`` on, ``count`` times; if ``backward``, ``origin`` is
    the last, and the times are before it."""

    origin: datetime
    step: Step
    count: int | None
    zone: tzinfo
    first: int = 0
    backward: bool = False

    def next_after(self, moment: datetime) -> datetime | None:
        moment = moment.astimezone(UTC)
        return self._next_backward(moment) if self.backward else self._next_forward(moment)

    def _next_forward(self, moment: datetime) -> datetime | None:
        number = _least(self.first, lambda k: (time := self._time(k)) is None or time > moment)
        over = self.count is not None and number >= self.first + self.count
        return None if over else self._time(number)

    def _next_backward(self, moment: datetime) -> datetime | None:
        number = _least(0, lambda k: (time := self._time(-k)) is None or time <= moment) - 1
        if self.count is not None:
            number = min(number, self.count - 1)
        return None if number < 0 else self._time(-number)

    def _time(self, number: int) -> datetime | None:
        """Time number ``number``; None if it is beyond the calendar."""
        try:
            return self.step.added(self.origin, number, self.zone)
        except (OverflowError, ValueError):
            return None


def parse_cycle(text: str, zone: tzinfo, anchor: datetime) -> Cycle:
    """Parse a cycle; without a start it begins one step after the anchor. Raises ValueError."""
    match = _FORM.fullmatch(text)
    if match is None:
        raise ValueError("expected R/<duration>, R/<start>/<duration>, R/<duration>/<end> or R/<start>/<end>")
    count = _count(match[1])
    one, other = match[2].strip(), (match[3] or "").strip()
    if _is_duration(one):
        step = _step(one)
        if not other:
            return Cycle(_whole(anchor), step, count, zone, first=1)
        return Cycle(_moment(other, zone), step, count, zone, backward=True)
    if not other:
        raise ValueError(f"{one!r} is not a duration; expected for example PT1H (an hour) or P1D (a day)")
    start = _moment(one, zone)
    if _is_duration(other):
        return Cycle(start, _step(other), count, zone)
    end = _moment(other, zone)
    if end <= start:
        raise ValueError("its end must be later than its start")
    return Cycle(start, Step(0, end - start), count, zone)


def with_start(text: str, anchor: datetime) -> str:
    """Make a cycle independent of its anchor: one with a number of repetitions, R5/PT1H, gets an explicit start.

    Any other text is returned unchanged.
    """
    match = _FORM.fullmatch(text)
    if match is None or not match[1] or match[3] or not _is_duration(match[2]):
        return text
    cycle = parse_cycle(text, UTC, anchor)
    start = replace(cycle, count=None).next_after(cycle.origin)
    return text if start is None else f"R{match[1]}/{start:%Y-%m-%dT%H:%M:%S}Z/{match[2]}"


def _count(digits: str) -> int | None:
    if not digits:
        return None
    count = int(digits) if len(digits) <= 10 else _MOST + 1
    if not 1 <= count <= _MOST:
        raise ValueError(f"the number after R must be from 1 to {_MOST}; without a number it repeats forever")
    return count


def _is_duration(text: str) -> bool:
    return text.startswith(("P", "-P", "+P"))


def _step(text: str) -> Step:
    interval = parse_interval(text)
    if isinstance(interval, timedelta):
        step = Step(0, interval)
    else:
        step = Step(int(interval.years) * 12 + int(interval.months), interval.tdelta)
    if not step.months and step.rest < timedelta(seconds=1):
        raise ValueError(f"{text} is shorter than a second")
    if step.rest.microseconds:
        raise ValueError(f"{text} has fractions of a second")
    return step


def _moment(text: str, zone: tzinfo) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            return at_wall_clock(_whole(moment), zone)
        return _whole(moment).astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError(f"{text!r} is neither a duration nor a time such as 2026-01-01T00:00:00Z") from None


def _whole(moment: datetime) -> datetime:
    return moment.replace(microsecond=0)


def _months_later(wall: datetime, months: int) -> datetime:
    year, month = divmod(wall.year * 12 + wall.month - 1 + months, 12)
    if not 1 <= year <= 9999:
        raise OverflowError("beyond the calendar")
    return wall.replace(year=year, month=month + 1, day=min(wall.day, monthrange(year, month + 1)[1]))


def _least(start: int, holds: Callable[[int], bool]) -> int:
    """The least number from ``start`` on for which ``holds``; it holds for all that follow."""
    width = 1
    while not holds(start + width - 1):
        width *= 2
    low, high = start + width // 2, start + width - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low
