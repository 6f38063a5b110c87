"""GET /jobs/statistics/global, POST /jobs/statistics/by-types and /by-workers: job statistics for a period."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.http import HttpRequest, HttpResponse

from jobexec import clock
from jobexec.conf import get_settings
from jobexec.gateways import zeebe_format
from jobexec.gateways.rest.common import caller_of, database, json_answer
from jobexec.operations.external.search import Figures, external_statistics, external_types, no_figures, workers_of

from .body import Body, read
from .endpoint import endpoint
from .filters import TEXT, Member, filter_of, moment_of, page_of
from .problems import INVALID_ARGUMENT, Refused, invalid


@endpoint("search")
def of_all(request: HttpRequest) -> HttpResponse:
    """GET /jobs/statistics/global?from=…&to=…&jobType=…"""
    begin, end = _span(request.GET.get("from"), request.GET.get("to"), "")
    type = request.GET.get("jobType")
    caller = caller_of(request)
    types = None if not type else [type]
    found = external_statistics(database(), begin, end, by=None, types=types, caller=caller)
    return json_answer({**_shown(found.get("", no_figures())), "isIncomplete": _is_incomplete(begin)})


@endpoint("search")
def by_types(request: HttpRequest) -> HttpResponse:
    """POST /jobs/statistics/by-types: each type, including types without jobs in the period."""
    body = read(request)
    given, caller = body.part("filter", required=True), caller_of(request)
    begin, end = _span(given.text("from", None), given.text("to", None), "filter.")
    asked = filter_of(_only(given, "jobType"), {"jobType": Member(TEXT)})
    types = [type for type in sorted(external_types(database(), caller)) if asked.matches({"jobType": type})]
    found = external_statistics(database(), begin, end, by="handler_type", types=types, caller=caller)
    workers = workers_of(database(), types)
    rows = [
        {"jobType": type, **_shown(found.get(type, no_figures())), "workers": workers.get(type, 0)} for type in types
    ]
    return json_answer(page_of(body, rows, more=False))


@endpoint("search")
def by_workers(request: HttpRequest) -> HttpResponse:
    """POST /jobs/statistics/by-workers: each worker that has reported on jobs of a type."""
    body = read(request)
    given = body.part("filter", required=True)
    begin, end = _span(given.text("from", None), given.text("to", None), "filter.")
    types = [given.text("jobType", blank=False)]
    found = external_statistics(database(), begin, end, by="node", types=types, caller=caller_of(request))
    rows = [{"worker": worker, **_shown(figures)} for worker, figures in sorted(found.items()) if worker]
    return json_answer(page_of(body, rows, more=False))


def _only(given: Body, name: str) -> Body:
    return Body({"filter": {key: value for key, value in given.items() if key == name}})


def _span(begin: Any, end: Any, where: str) -> tuple[datetime, datetime]:
    for name, value in (("from", begin), ("to", end)):
        if not value:
            raise Refused(INVALID_ARGUMENT, f"{where}{name}: expected a date-time, got none.")
    # In a URL an unencoded plus is decoded as a space.
    first = moment_of(f"{where}from", str(begin).replace(" ", "+"))
    last = moment_of(f"{where}to", str(end).replace(" ", "+"))
    if last < first:
        raise invalid(f"{where}to", "a moment that is not before 'from'", end)
    return first, last


def _shown(figures: Mapping[str, Figures]) -> dict[str, Any]:
    return {name: {"count": each.count, "lastUpdatedAt": zeebe_format.iso(each.last)} for name, each in figures.items()}


def _is_incomplete(begin: datetime) -> bool:
    """Whether the log lacks data: entries have expired, or HISTORY_LEVEL, if not "full", leaves out creations."""
    settings = get_settings()
    kept = settings.history_time_to_live
    return settings.history_level != "full" or (kept is not None and begin < clock.now(database()) - kept)
