"""The columns and fields of schedules."""

from __future__ import annotations

from datetime import datetime

from django.contrib import admin
from django.utils import formats
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from jobexec.exceptions import InvalidSchedule
from jobexec.models import Schedule
from jobexec.operations.schedules.manage import upcoming
from jobexec.operations.schedules.words import in_words
from jobexec.recurrence.zones import find_zone
from jobexec.redaction import redact
from jobexec.sensitive import hide

from ..common import display
from .form import NEVER, placed

TIMES_SHOWN = 5
SHOWN = (
    "standing",
    "next_time",
    "last_time",
    "made",
    "next_times",
    "origin",
    "create_time",
    "arguments",
    "shown_options",
)
"""The read-only fields of a page."""


class ScheduleColumns:
    """Methods for ``list_display`` and ``readonly_fields``."""

    @admin.display(description=gettext_lazy("state"))
    def standing(self, row: Schedule) -> SafeString:
        badge = self._badge(row)
        if getattr(row, "known", True):
            return badge
        return format_html("{} {}", badge, display.badge("bad", _("no executor knows its handler")))

    def _badge(self, row: Schedule) -> SafeString:
        if not row.enabled:
            return display.badge("off", _("disabled"))
        if row.withdrawn:
            return display.badge("wait", _("no longer declared in the code"))
        return display.badge("ok", _("enabled")) if row.next_time else display.badge("wait", _("over"))

    @admin.display(description=gettext_lazy("handler"))
    def handler(self, row: Schedule) -> SafeString:
        return display.handler(row.handler_type)

    @admin.display(description=gettext_lazy("expression"))
    def recurrence(self, row: Schedule) -> SafeString:
        said = in_words(row.expression)
        zone = "" if row.expression.startswith("R") else row.timezone
        quiet = ", ".join(filter(None, (said, zone)))
        return format_html('<code>{}</code><br><span class="jobexec-quiet">{}</span>', row.expression, quiet)

    @admin.display(description=gettext_lazy("next time"), ordering="next_time")
    def next(self, row: Schedule) -> str | SafeString:
        return display.relative(row.next_time, display.now(row))

    @admin.display(description=gettext_lazy("last time"), ordering="last_time")
    def last(self, row: Schedule) -> str | SafeString:
        return display.relative(row.last_time, display.now(row))

    @admin.display(description=gettext_lazy("fired"))
    def made(self, row: Schedule) -> int:
        return row.fired

    @admin.display(description=gettext_lazy("next five times"))
    def next_times(self, row: Schedule) -> SafeString:
        """Those of the row; the script of the form replaces them as long as something else is entered."""
        times = described(row) if row.expression else display.NONE
        return format_html('<div id="jobexec-times" aria-live="polite">{}</div>', times)

    @admin.display(description=gettext_lazy("origin"))
    def origin(self, row: Schedule) -> str:
        return _("from the code") if row.from_code else _("created by an operator")

    @admin.display(description=gettext_lazy("arguments"))
    def arguments(self, row: Schedule) -> str | SafeString:
        return display.json_text(redact(row.handler_type, row.handler_configuration, row._state.db))

    @admin.display(description=gettext_lazy("options"))
    def shown_options(self, row: Schedule) -> str | SafeString:
        return display.json_text(hide(row.options))


def described(row: Schedule) -> str | SafeString:
    """The next times of a schedule, also of one that is not saved; if it is disabled, those at which it would fire."""
    now = display.now(row)
    try:
        times, zone = upcoming(row, TIMES_SHOWN, now), find_zone(row.timezone)
    except InvalidSchedule as error:
        return format_html('<p class="jobexec-bad">{}</p>', placed(error)[1])
    if not times:
        return format_html('<p class="jobexec-bad">{}</p>', NEVER)
    lines = ((_on_the_clock(time.astimezone(zone)), display.relative(time, now)) for time in times)
    items = format_html_join("", '<li>{} <span class="jobexec-quiet">{}</span></li>', lines)
    return format_html('<p>{}</p><ol class="jobexec-times">{}</ol>', in_words(row.expression), items)


def _on_the_clock(moment: datetime) -> str:
    """Local time in the schedule's time zone, with the day of the week, which often matters."""
    day = formats.date_format(moment, "D"), formats.date_format(moment, "SHORT_DATE_FORMAT")
    return f"{' '.join(day)} {moment:%H:%M:%S %Z}"
