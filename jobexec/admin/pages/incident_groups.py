"""The page of the open incidents by group of failures: one line, however many jobs have failed alike."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.contrib.admin import AdminSite
from django.core.exceptions import PermissionDenied
from django.db import router
from django.http import HttpRequest, HttpResponse
from django.utils.formats import number_format
from django.utils.translation import gettext as _

from jobexec import clock
from jobexec.models import FailureGroup, Incident
from jobexec.operations.reports import failure_groups

from ..common import display
from ..history.failure_group import standing_badge
from .base import Page


def incident_groups_view(request: HttpRequest, site: AdminSite) -> HttpResponse:
    """The page; it needs the permission to view incidents, and for their groups that to view these."""
    page = Page(request, site, router.db_for_read(Incident))
    if page.admin(Incident) is None:
        raise PermissionDenied
    found, more, more_kinds = failure_groups.similar_incidents(page.using, page.tenants)
    now = clock.now(page.using)
    return page.render(
        "admin/jobexec/pages/incident_groups.html",
        _("Open incidents"),
        {
            "rows": [_row(page, each, now) for each in found],
            "incidents_url": page.visible.list(Incident),
            "limit": _number(failure_groups.INCIDENTS_READ) if more else "",
            "more_kinds": more_kinds,
        },
    )


def _row(page: Page, each: failure_groups.SimilarIncidents, now: datetime) -> dict[str, Any]:
    group, latest = each.group if page.admin(FailureGroup) is not None else None, each.latest
    like = {"fingerprint": latest.fingerprint} if latest.fingerprint else {"handler": latest.handler_type}
    return {
        "handler": latest.resource or display.handler(latest.handler_type),
        "message": display.shortened(latest.message, 160),
        "url": page.visible.page(Incident, latest.pk) if each.count == 1 else page.visible.list(Incident, **like),
        "count": _number(each.count),
        "since": display.relative(each.since, now),
        "latest": display.relative(latest.timestamp, now),
        "group_url": page.visible.page(FailureGroup, group.pk) if group is not None else "",
        "group": group and str(group),
        "badge": standing_badge(group, now) if group is not None else "",
        "assigned_to": group.assigned_to if group is not None else "",
    }


def _number(count: int) -> str:
    return number_format(count, force_grouping=True)
