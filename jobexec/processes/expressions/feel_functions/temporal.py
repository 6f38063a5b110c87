"""Functions of dates, times and durations."""

from __future__ import annotations

import calendar
from datetime import date, datetime, timedelta
from typing import Any

from ..functions import Functions
from ..values import Months

FUNCTIONS = Functions()
register = FUNCTIONS.register

# Of the language, not of the process's locale.
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)


@register("now")
def now(evaluation: Any) -> datetime:
    moment: datetime = evaluation.now()
    return moment


@register("today")
def today(evaluation: Any) -> date:
    moment: datetime = evaluation.now()
    return moment.date()


@register("day of week", "date: date|date and time")
def day_of_week(day: date) -> str:
    return _DAYS[day.weekday()]


@register("day of year", "date: date|date and time")
def day_of_year(day: date) -> int:
    return day.timetuple().tm_yday


@register("week of year", "date: date|date and time")
def week_of_year(day: date) -> int:
    return day.isocalendar().week


@register("month of year", "date: date|date and time")
def month_of_year(day: date) -> str:
    return _MONTHS[day.month - 1]


@register("last day of month", "date: date|date and time")
def last_day_of_month(day: date) -> date:
    last = day.replace(day=calendar.monthrange(day.year, day.month)[1])
    return last.date() if isinstance(last, datetime) else last


@register("abs", "n: days and time duration|years and months duration")
def absolute(n: timedelta | Months) -> timedelta | Months:
    return Months(abs(n.months)) if isinstance(n, Months) else abs(n)
