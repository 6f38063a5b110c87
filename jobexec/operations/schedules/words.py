"""Describe the most common recurrences in words; others are shown unchanged."""

from __future__ import annotations

import re

from django.utils.dateparse import parse_duration
from django.utils.dates import WEEKDAYS
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from jobexec.recurrence.cron import NICKNAMES

from ..values.humanize import duration

_DAYS = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")
_CYCLE = re.compile(r"R(?P<count>\d*)/(?:.*/)?(?P<length>P[0-9.DTHMS]+)(?:/[^P]*)?")
_EVERY = re.compile(r"\*/(\d+)")


def in_words(expression: str) -> str:
    """The meaning of an expression in words; empty if it is not among the most common ones."""
    expression = NICKNAMES.get(expression.lower(), expression)
    if cycle := _CYCLE.fullmatch(expression):
        return _of_cycle(cycle["count"], cycle["length"])
    fields = expression.split()
    return _of_cron(*fields) if len(fields) == 5 else ""


def _of_cycle(count: str, length: str) -> str:
    found = parse_duration(length)
    if found is None:
        return ""
    every = {"time": duration(found.total_seconds()), "count": int(count or 0)}
    if not count:
        return _("every %(time)s") % every
    return ngettext("once, after %(time)s", "%(count)d times, every %(time)s", int(count)) % every


def _of_cron(minute: str, hour: str, day: str, month: str, weekday: str) -> str:
    if month != "*":
        return ""
    if (hour, day, weekday) == ("*", "*", "*"):
        return _within_an_hour(minute)
    if not (minute.isdecimal() and hour.isdecimal()):
        return ""
    time = {"time": f"{int(hour):02}:{int(minute):02}"}
    if (day, weekday) == ("*", "*"):
        return _("every day at %(time)s") % time
    if weekday == "*" and day.isdecimal():
        return _("on day %(day)d of each month at %(time)s") % {"day": int(day), **time}
    days = _days(weekday) if day == "*" else ""
    return _("%(days)s at %(time)s") % {"days": days, **time} if days else ""


def _within_an_hour(minute: str) -> str:
    if minute == "*":
        minute = "*/1"
    if every := _EVERY.fullmatch(minute):
        # 7 does not divide 60: the last interval of each hour is shorter, so "every 7 minutes" would be wrong.
        count = int(every[1])
        text = ngettext("every minute", "every %(count)d minutes", count) % {"count": count}
        return text if count and 60 % count == 0 else ""
    return _("every hour at minute %(minute)d") % {"minute": int(minute)} if minute.isdecimal() else ""


def _days(text: str) -> str:
    """Days of the week: a day, a list, or a range."""
    first, dash, last = text.partition("-")
    if dash:
        ends = [_day(first), _day(last)]
        return _("%(first)s to %(last)s") % {"first": ends[0], "last": ends[1]} if all(ends) else ""
    names = [_day(part) for part in text.split(",")]
    return ", ".join(names) if all(names) else ""


def _day(text: str) -> str:
    if text.upper() in _DAYS:
        return str(WEEKDAYS[_DAYS.index(text.upper())])
    # In cron Sunday is 0 or 7, in Django Monday is 0.
    return str(WEEKDAYS[(int(text) - 1) % 7]) if text.isdecimal() and int(text) <= 7 else ""
