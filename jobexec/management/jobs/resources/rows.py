"""Resources as rows of a table, and as JSON objects."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from django.utils.translation import gettext as _
from django.utils.translation import pgettext

from jobexec import clock
from jobexec.conf.resources import ResourceLimits
from jobexec.models import BreakerState
from jobexec.operations.reports.resources import ResourceStatus
from jobexec.operations.values.humanize import NONE, distance

from ..output.screen import Screen
from ..output.table import Cell, Column


def tell_resources(found: Sequence[ResourceStatus], screen: Screen) -> bool:
    """Write one line or JSON object per resource. Return True if there are any, or with ``--json``."""
    if screen.json:
        for each in found:
            screen.tell(each.as_json())
    elif found:
        now = clock.now(screen.using)
        screen.table(columns(), [cells(each, now, screen) for each in found])
    return bool(found) or screen.json


def columns() -> list[Column]:
    return [
        Column(_("resource"), least=12, keep_end=True),
        Column(_("in use"), right=True),
        Column(pgettext("of a resource", "limit"), right=True),
        Column(_("rate"), right=True, extra=1),
        Column(_("waiting"), right=True),
        Column(_("breaker")),
        Column(_("until"), right=True, extra=2),
        Column(_("promoted jobs"), right=True, extra=4),
        Column(_("entry"), least=8, extra=3),
    ]


def cells(status: ResourceStatus, now: datetime, screen: Screen) -> list[Cell | str]:
    limits = status.limits or ResourceLimits()
    changed = screen.style.WARNING if status.changed else str
    return [
        status.name,
        str(status.in_use),
        Cell(NONE if limits.limit is None else str(limits.limit), changed),
        Cell(NONE if limits.rate is None else str(limits.rate), changed),
        Cell(str(status.waiting), screen.style.WARNING if status.waiting else str),
        _breaker(status, screen),
        NONE if status.until is None else distance(status.until, now),
        str(status.promoted),
        status.entry or NONE,
    ]


def _breaker(status: ResourceStatus, screen: Screen) -> Cell | str:
    if not status.breaker:
        return NONE
    paint = {BreakerState.CLOSED.value: screen.style.SUCCESS, BreakerState.OPEN.value: screen.style.ERROR}
    return Cell(status.breaker_words, paint.get(status.breaker, screen.style.WARNING))
