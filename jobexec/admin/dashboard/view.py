"""The dashboard of one request, rendered to HTML."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from django.contrib.admin import AdminSite
from django.core.exceptions import PermissionDenied
from django.db import Error
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.utils import timezone
from django.utils.translation import gettext as _

from jobexec import clock
from jobexec.conf import get_settings
from jobexec.models import Job
from jobexec.operations.overview import Overview, overview
from jobexec.operations.reports import subjects
from jobexec.operations.rows.bury_unreadable import UNREADABLE

from ..common.tenancy import tenants_of
from . import panels
from .choice import Choice, engine_of_lists
from .flow import backlog, flow, split
from .tiles import tiles
from .visible_tables import VisibleTables, address_of_dashboard

logger = logging.getLogger("jobexec.admin")

AppList = Iterable[Mapping[str, Any]]

REFRESH_SECONDS = 10
"""The interval at which the page fetches the dashboard again."""


def dashboard(request: HttpRequest, app_list: AppList) -> str:
    """The dashboard with its controls; empty if the user may see no part of it.

    ``app_list`` is the list of apps for this user (``AdminSite.get_app_list``).
    """
    visible, choice = VisibleTables(request, app_list), Choice.of(request)
    if not visible.parts():
        return ""
    url = address_of_dashboard(request)
    context = {
        "url": f"{url}?{choice.query}" if url else "",
        "seconds": REFRESH_SECONDS,
        "engines": choice.engines(),
        "periods": choice.periods(),
        "splits": choice.splits(),
        "body": _body(request, visible, choice),
    }
    return render_to_string("admin/jobexec/dashboard/frame.html", context, request)


def dashboard_view(request: HttpRequest, site: AdminSite) -> HttpResponse:
    """The changing part of the dashboard, for the script that refreshes it."""
    request.current_app = site.name
    visible = VisibleTables(request, site.get_app_list(request, "jobexec"))
    if not visible.parts():
        raise PermissionDenied
    return HttpResponse(_body(request, visible, Choice.of(request)))


def _body(request: HttpRequest, visible: VisibleTables, choice: Choice) -> str:
    lists = engine_of_lists()
    visible.linked = choice.engine == lists
    now = timezone.localtime(clock.now(choice.engine))
    context = {"choice": choice, "lists": "" if visible.linked else lists, "time": f"{now:%H:%M:%S %Z}", "now": now}
    try:
        context |= _readable(request, visible, choice)
    except Error as error:  # the page must still work when the database of an engine does not
        context["error"] = str(error)
    return render_to_string("admin/jobexec/dashboard/body.html", context, request)


def _readable(request: HttpRequest, visible: VisibleTables, choice: Choice) -> dict[str, Any]:
    """Everything that the user may see, except parts with unreadable rows, which are named."""

    def look(parts: frozenset[str]) -> dict[str, Any]:
        return _content(
            overview(
                choice.engine, tenants=tenants_of(request), period=choice.length, parts=parts, by=choice.by or None
            ),
            visible,
            choice,
        )

    try:
        return look(visible.parts())
    except UNREADABLE:
        odd = frozenset(part for part in visible.parts() if not _can_be_read(look, part))
        found = look(visible.parts() - odd)
    text = _("Some rows cannot be read, so these parts are left out: %(parts)s.") % {"parts": ", ".join(sorted(odd))}
    return found | {"wrong": [{"text": text, "url": ""}, *found["wrong"]]}


def _can_be_read(look: Callable[[frozenset[str]], Any], part: str) -> bool:
    try:
        look(frozenset({part}))
    except UNREADABLE as error:
        logger.warning("Dashboard: %s: %s", part, type(error).__name__)
        return False
    return True


def _content(seen: Overview, visible: VisibleTables, choice: Choice) -> dict[str, Any]:
    if seen.counts is not None and not visible.may(Job):
        seen = replace(seen, counts=replace(seen.counts, oldest_due=None))
    return {
        "tenants": None if seen.tenants is None else sorted(seen.tenants),
        "wrong": panels.wrong(seen, visible),
        "tiles": tiles(seen, visible),
        "flow": None if seen.traffic is None else flow(seen.traffic, seen.now),
        "split": _split(seen, visible, choice),
        "backlog": None if seen.backlog is None else backlog(seen.backlog, seen.now),
        "nodes": panels.nodes(seen, visible),
        "failures": panels.failures(seen, visible),
        "timers": panels.timers(seen, visible),
        "schedules": panels.schedules(seen, visible),
        "suspensions": panels.suspensions(seen, visible),
        "batches": panels.batches(seen, visible),
    }


def _split(seen: Overview, visible: VisibleTables, choice: Choice) -> dict[str, Any] | None:
    if seen.split is None:
        return None
    found = split(seen.split, seen.now)
    most = subjects.MOST["category"]
    return {
        **found,
        "legend": panels.split_legend(found["legend"], choice.by, visible),
        "most": most if choice.by == "category" and len(get_settings().categories) > most else None,
    }
