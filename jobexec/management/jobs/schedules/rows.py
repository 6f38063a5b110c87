"""Schedules as rows of a table, and as JSON objects."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from django.utils.translation import gettext as _

from jobexec import clock
from jobexec.models import Schedule
from jobexec.operations.schedules.words import in_words
from jobexec.operations.values.humanize import NONE, both, distance
from jobexec.redaction import redact
from jobexec.sensitive import hide

from ..arguments.meant import MOST
from ..output.screen import Screen
from ..output.table import Cell, Column


def some_names(using: str) -> Iterable[str]:
    """The names to look through for one that is like a misspelt one."""
    return Schedule.objects.using(using).order_by("name").values_list("name", flat=True)[:MOST]


def tell_schedules(rows: Sequence[Schedule], screen: Screen) -> bool:
    """Write one line or JSON object per schedule. Return True if there are any, or with ``--json``."""
    if screen.json:
        for row in rows:
            screen.tell(as_object(row))
    elif rows:
        now = clock.now(screen.using)
        screen.table(_columns(), [_cells(row, now, screen) for row in rows])
    return bool(rows) or screen.json


def as_object(row: Schedule) -> dict[str, Any]:
    """All columns, without sensitive values."""
    told = {field.name: getattr(row, field.attname) for field in row._meta.concrete_fields if field.name != "id"}
    configuration = redact(row.handler_type, row.handler_configuration, row._state.db)
    return {**told, "handler_configuration": configuration, "options": hide(row.options), "from_code": row.from_code}


def say_times(times: Sequence[datetime], screen: Screen) -> None:
    """Write the next times, one per line."""
    now = clock.now(screen.using)
    for time in times:
        screen.say(f"  {both(time, now)}")


def _columns() -> list[Column]:
    return [
        Column(_("schedule"), least=12, keep_end=True),
        Column(_("state")),
        Column(_("expression"), least=9),
        Column(_("in words"), least=10, extra=2),
        Column(_("time zone"), least=6, extra=5),
        Column(_("next time"), right=True),
        Column(_("last time"), right=True, extra=1),
        Column(_("fired"), right=True, extra=3),
        Column(_("handler"), least=12, keep_end=True, extra=4),
    ]


def _cells(row: Schedule, now: datetime, screen: Screen) -> list[Cell | str]:
    when = [NONE if time is None else distance(time, now) for time in (row.next_time, row.last_time)]
    said = in_words(row.expression) or NONE
    return [row.name, _state(row, screen), row.expression, said, row.timezone, *when, str(row.fired), row.handler_type]


def _state(row: Schedule, screen: Screen) -> Cell:
    if not row.enabled:
        return Cell(_("disabled"), screen.style.WARNING)
    return Cell(_("enabled"), screen.style.SUCCESS) if row.next_time else Cell(_("over"))
