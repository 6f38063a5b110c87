"""The page of what runs now: on each node and thread, since when, and how far it is."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from django.contrib.admin import AdminSite
from django.core.exceptions import PermissionDenied
from django.db import router
from django.http import HttpRequest, HttpResponse
from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext as _

from jobexec import clock
from jobexec.conf import get_settings
from jobexec.models import ExecutorNode, Job, JobProgress, SuspensionScope
from jobexec.operations.overview import NODES_SHOWN

from ..common import display, node_columns
from ..common.job_columns import visible_calls
from ..common.page_links import subject_url
from .base import Page

REFRESH_SECONDS = 10


def running_view(request: HttpRequest, site: AdminSite) -> HttpResponse:
    """The page; it needs the permission to view nodes, and for the jobs that to view jobs. ``?body=1``: its content."""
    page = Page(request, site, router.db_for_read(Job))
    if page.admin(ExecutorNode) is None:
        raise PermissionDenied
    now = clock.now(page.using)
    rows = list(ExecutorNode.objects.using(page.using).told_apart().order_by("name", "start_time", "id")[:NODES_SHOWN])
    reported = [each for row in rows for each in _reported(row)]
    said = _progress(page.using, reported)
    calls = visible_calls(request, site, {UUID(str(each["job"])) for each in reported}, page.using)
    return page.render(
        # The script that keeps it fresh asks for the changing part.
        f"admin/jobexec/pages/{'running_body' if 'body' in request.GET else 'running'}.html",
        _("Running now"),
        {
            "nodes": [_node(page, row, said, calls, now) for row in rows],
            "categories": _categories(page),
            "now": now,
            "seconds": REFRESH_SECONDS,
        },
    )


def _categories(page: Page) -> list[dict[str, Any]]:
    """The categories of the settings, each with whether it is suspended."""
    return [
        {
            "name": name,
            "url": subject_url(page.site.name, "category", name),
            **page.suspension(SuspensionScope.CATEGORY, name),
        }
        for name in get_settings().categories
    ]


def _reported(row: ExecutorNode) -> list[dict[str, Any]]:
    """The reported runs of a node; a row that was written by hand may hold anything."""
    found = row.running if isinstance(row.running, list) else []
    return [each for each in found if isinstance(each, dict) and _id(each) is not None]


def _id(each: dict[str, Any]) -> UUID | None:
    try:
        return UUID(str(each.get("job")))
    except ValueError:
        return None


def _progress(using: str, reported: list[dict[str, Any]]) -> dict[str, tuple[int, int | None]]:
    ids = [each["job"] for each in reported]
    rows = JobProgress.objects.using(using).filter(job_id__in=ids).values_list("job_id", "done", "total")
    return {str(job): (done, total) for job, done, total in rows} if ids else {}


def _node(
    page: Page, row: ExecutorNode, said: dict[str, tuple[int, int | None]], calls: dict[UUID, str], now: datetime
) -> dict[str, Any]:
    left = row.lease_expiration_time - now
    jobs = [_job(page, each, said, calls, now) for each in _reported(row)] if page.admin(Job) is not None else None
    nodes = page.admin(ExecutorNode)
    return {
        "name": row.label,
        "url": nodes.page_url(row.pk) if nodes is not None else "",
        "state": node_columns.state_badge(row.state),
        "heartbeat": display.relative(row.heartbeat_time, now),
        "lease": None if left.total_seconds() > 0 else node_columns.lease_badge(left),
        "busy": display.load(row.busy_threads, row.threads),
        "stuck": node_columns.stuck_badge(row.stuck_threads),
        "queued": display.load(row.queued_jobs, row.queue_size),
        "jobs": jobs,
    }


def _job(
    page: Page,
    each: dict[str, Any],
    said: dict[str, tuple[int, int | None]],
    calls: dict[UUID, str],
    now: datetime,
) -> dict[str, Any]:
    id = UUID(str(each["job"]))
    since = parse_datetime(str(each.get("since", "")))
    done, total = said.get(str(each["job"]), (None, None))
    handler = str(each.get("handler", ""))
    progress: Any = display.NONE
    if done is not None:
        progress = display.load(done, total) if total else _("%d done") % done
    url, call = subject_url(page.site.name, "handler", handler), display.call(handler, calls.get(id, ""))
    return {
        "thread": str(each.get("thread") or _("event loop")),
        "job": display.job_link(id, page.site.name),
        "handler": display.link(url, call) if url else call,
        "category": each.get("category", ""),
        "since": display.NONE if since is None else display.age(since, now),
        "progress": progress,
    }
