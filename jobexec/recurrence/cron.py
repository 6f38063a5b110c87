"""Cron expressions in a time zone, by cronsim."""

from __future__ import annotations

from datetime import datetime, tzinfo

from cronsim import CronSim, CronSimError

from .base import Recurrence
from .zones import at_wall_clock, moments_of, moved_near, shown_at

#: Abbreviations of expressions.
NICKNAMES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_EXPECTED = {
    "second": "numbers from 0 to 59",
    "minute": "numbers from 0 to 59",
    "hour": "numbers from 0 to 23",
    "day-of-month": "numbers from 1 to 31 that its months have, L or LW",
    "month": "numbers from 1 to 12, or JAN to DEC",
    "day-of-week": "numbers from 0 (Sunday) to 7 (Sunday), or SUN to SAT, MON#2 or 5L",
}
_SOME_DAY = datetime(2000, 1, 1)


class Cron(Recurrence):
    """A cron expression. Raises ValueError if it is invalid or never fires."""

    def __init__(self, text: str, zone: tzinfo) -> None:
        self._fields, self._zone = _fields(text), zone
        *_, minute, hour = self._fields[:-3]
        #: Debian's rule: a job of a fixed hour and minute runs once, however the clocks are changed.
        self._once = not minute.startswith("*") and not hour.startswith("*")
        self._text = " ".join(self._fields)
        try:
            fires = next(CronSim(self._text, _SOME_DAY), None)
        except CronSimError as error:
            raise ValueError(_explained(str(error))) from None
        if fires is None:
            raise ValueError("it never fires")

    def next_after(self, moment: datetime) -> datetime | None:
        try:
            return self._next_once(moment) if self._once else self._next_each(moment)
        except (OverflowError, ValueError):  # past the year 9999
            return None

    # cronsim gets wall clock times, and not moments: it errs where clocks are moved by half an hour.

    def _next_once(self, moment: datetime) -> datetime | None:
        for wall in CronSim(self._text, shown_at(moment, self._zone)):
            time = at_wall_clock(wall, self._zone)
            if time > moment:  # false for what the clocks show a second time
                return time
        return None

    def _next_each(self, moment: datetime) -> datetime | None:
        """Times that the clocks never show are skipped, and times that they show twice come twice."""
        wall, moved, best = shown_at(moment, self._zone), moved_near(moment, self._zone), None
        for found in CronSim(self._text, wall - moved):
            times = [time for time in moments_of(found, self._zone) if time > moment]
            best = min([*times, *([] if best is None else [best])], default=None)
            # Where clocks go back, the earliest moment does not have the earliest wall clock time.
            if best is not None and found >= wall + moved:
                return best
        return best


def _fields(text: str) -> list[str]:
    if text.startswith("@"):
        if text.lower() not in NICKNAMES:
            raise ValueError(f"expected one of {', '.join(NICKNAMES)}")
        text = NICKNAMES[text.lower()]
    fields = text.split()
    if len(fields) not in (5, 6):
        raise ValueError(
            "expected five fields (minute, hour, day of the month, month, day of the week), or six with the seconds "
            f"first, got {len(fields)}"
        )
    for place in (-3, -1):  # Quartz: the day field that is ignored
        fields[place] = "*" if fields[place] == "?" else fields[place]
    return fields


def _explained(error: str) -> str:
    name = error.removeprefix("Bad ")
    expected = _EXPECTED.get(name, "numbers")
    return f"the field {name} is wrong: expected {expected}, *, ranges (1-5), steps (*/5), or a list of these (1,3)"
