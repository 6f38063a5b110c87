"""Times and durations as text for people: in the admin, commands and reasons."""

from __future__ import annotations

from datetime import datetime

from django.utils import formats, timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from jobexec.identifiers import OWN

NONE = "–"  # noqa: RUF001 (an empty cell)

_UNITS = (
    (86_400, gettext_lazy("%d d")),
    (3_600, gettext_lazy("%d h")),
    (60, gettext_lazy("%d min")),
    (1, gettext_lazy("%d s")),
)


def handler_name(handler_type: str) -> str:
    """A handler as lists of handlers name it; all of jobexec's own are one."""
    return _("jobexec's own") if handler_type == OWN else handler_type


def duration(seconds: float | None) -> str:
    """Format a duration in its two largest units: "250 ms", "12 s", "3 min 5 s", "2 d 4 h"; it may be negative."""
    if seconds is None:
        return NONE
    if seconds < 0:
        return f"−{duration(-seconds)}"  # noqa: RUF001 (a minus sign)
    if seconds < 1:
        return _("%d ms") % round(seconds * 1000)
    parts: list[str] = []
    rest = round(seconds)
    for size, unit in _UNITS:
        count, rest = divmod(rest, size)
        if count or parts:
            parts.append(unit % count if count else "")
    return " ".join(part for part in parts[:2] if part)


def absolute(moment: datetime) -> str:
    """Format date and time with seconds in the current time zone, which is named."""
    local = timezone.localtime(moment)
    return f"{formats.date_format(local, 'SHORT_DATE_FORMAT')} {local:%H:%M:%S %Z}"


def distance(moment: datetime, reference: datetime) -> str:
    """Format a moment relative to another: "in 3 min", "2 h ago"."""
    seconds = (moment - reference).total_seconds()
    return (_("in %s") if seconds > 0 else _("%s ago")) % duration(abs(seconds))


def both(moment: datetime, reference: datetime) -> str:
    """Format a moment and its distance from the reference."""
    return _("%(moment)s (%(distance)s)") % {"moment": absolute(moment), "distance": distance(moment, reference)}
