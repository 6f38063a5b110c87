"""Parses recurrences."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from jobexec import clock
from jobexec.exceptions import InvalidSchedule
from jobexec.json_values import shown

from .base import Recurrence
from .cron import Cron
from .cycle import parse_cycle
from .zones import find_zone, zone_named

MAX_LENGTH = 255  # of the column

_EXAMPLES = "for example 0 3 * * * (at 03:00 every day) or R/PT1H (every hour)"


def parse(expression: Any, timezone: str | None = None, anchor: datetime | None = None) -> Recurrence:
    """The recurrence of a cron expression or an ISO 8601 cycle; the package's docstring lists the forms.

    ``timezone`` applies to cron's fields, to moments without an offset, and to months and years (default: Django's
    setting TIME_ZONE). ``anchor`` is the origin of a cycle without a start (default: now). Raises
    :class:`~jobexec.exceptions.InvalidSchedule`, which names the text and what was expected.
    """
    if not isinstance(expression, str) or not 0 < len(expression) <= MAX_LENGTH:
        text = f"expression: expected a string of 1 to {MAX_LENGTH} characters, {_EXAMPLES}, got {shown(expression)}."
        raise InvalidSchedule(text)
    return _parse(expression.strip(), zone_named(timezone), anchor or clock.now())


@lru_cache(maxsize=1024)
def _parse(text: str, timezone: str, anchor: datetime) -> Recurrence:
    zone = find_zone(timezone)
    try:
        if text.startswith("R") and "/" in text:
            return parse_cycle(text, zone, anchor.astimezone(UTC))
        return Cron(text, zone)
    except ValueError as error:
        raise InvalidSchedule(f"expression: {text!r}: {error}; {_EXAMPLES}.") from None
