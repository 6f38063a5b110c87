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
from jobexec.operations.external.search import external_statistics, external_types, no_figures, workers_of

from .contract import ANY_PAGE, Pages, Property, Request, Response, optional, required
from .endpoint import Operation, endpoint
from .filters import criterion
from .problems import invalid
from .values import FLAG, NOT_BLANK, NUMBER, TEXT, TIME, TIME_IN_URL, nullable

_METRIC = Response(
    "StatusMetric",
    count=Property(NUMBER, lambda figures: figures.count),
    lastUpdatedAt=Property(nullable(TIME), lambda figures: zeebe_format.iso(figures.last)),
)
#: Made of figures by name, and of further values.
_FIGURES = {name: _METRIC.one(lambda figures, *more, name=name: figures[name]) for name in no_figures()}
_OF_ALL = Response(
    "GlobalJobStatisticsQueryResult",
    **_FIGURES,
    isIncomplete=Property(FLAG, lambda figures, is_incomplete: is_incomplete),
)
_OF_TYPE = Response(
    "JobTypeStatisticsItem",
    jobType=Property(TEXT, lambda figures, type, workers: type),
    **_FIGURES,
    workers=Property(NUMBER, lambda figures, type, workers: workers),
)
_OF_TYPES = Pages("JobTypeStatisticsQueryResult", _OF_TYPE)
_OF_WORKER = Response("JobWorkerStatisticsItem", worker=Property(TEXT, lambda figures, worker: worker), **_FIGURES)
_OF_WORKERS = Pages("JobWorkerStatisticsQueryResult", _OF_WORKER)

_PERIOD = {"from": required(TIME), "to": required(TIME)}
_BY_TYPE = Request(**_PERIOD, jobType=criterion(_OF_TYPE, "jobType"))
_BY_WORKER = Request(**_PERIOD, jobType=required(NOT_BLANK))


@endpoint(
    "search",
    operation=Operation(
        "getGlobalJobStatistics",
        "Global job statistics for a period",
        query=Request(**{"from": required(TIME_IN_URL), "to": required(TIME_IN_URL)}, jobType=optional(TEXT)),
        gives=_OF_ALL,
    ),
)
def of_all(request: HttpRequest, query: Mapping[str, Any]) -> HttpResponse:
    """GET /jobs/statistics/global?from=…&to=…&jobType=…"""
    begin, end = _period(query, "")
    types = None if query["jobType"] is None else [query["jobType"]]
    found = external_statistics(database(), begin, end, by=None, types=types, caller=caller_of(request))
    return json_answer(_OF_ALL.of(found.get("", no_figures()), _is_incomplete(begin)))


@endpoint(
    "search",
    operation=Operation(
        "getJobTypeStatistics",
        "Job statistics by type",
        Request("JobTypeStatisticsQuery", filter=required(_BY_TYPE.part()), page=ANY_PAGE),
        _OF_TYPES,
    ),
)
def by_types(request: HttpRequest, body: Mapping[str, Any]) -> HttpResponse:
    """POST /jobs/statistics/by-types: each type, including types without jobs in the period."""
    begin, end = _period(body["filter"], "filter.")
    matches, caller = body["filter"]["jobType"].matches, caller_of(request)
    types = [type for type in sorted(external_types(database(), caller)) if matches({"jobType": type})]
    found = external_statistics(database(), begin, end, by="handler_type", types=types, caller=caller)
    workers = workers_of(database(), types)
    rows = [_OF_TYPE.of(found.get(type, no_figures()), type, workers.get(type, 0)) for type in types]
    return json_answer(_OF_TYPES.of(body["page"], rows))


@endpoint(
    "search",
    operation=Operation(
        "getJobWorkerStatistics",
        "Job statistics by worker",
        Request("JobWorkerStatisticsQuery", filter=required(_BY_WORKER.part()), page=ANY_PAGE),
        _OF_WORKERS,
    ),
)
def by_workers(request: HttpRequest, body: Mapping[str, Any]) -> HttpResponse:
    """POST /jobs/statistics/by-workers: each worker that has reported on jobs of a type."""
    begin, end = _period(body["filter"], "filter.")
    types = [body["filter"]["jobType"]]
    found = external_statistics(database(), begin, end, by="node", types=types, caller=caller_of(request))
    rows = [_OF_WORKER.of(figures, worker) for worker, figures in sorted(found.items()) if worker]
    return json_answer(_OF_WORKERS.of(body["page"], rows))


def _period(given: Mapping[str, Any], path: str) -> tuple[datetime, datetime]:
    begin, end = given["from"], given["to"]
    if end < begin:
        raise invalid(f"{path}to", "a moment that is not before 'from'", end.isoformat())
    return begin, end


def _is_incomplete(begin: datetime) -> bool:
    """Whether the log lacks data: entries have expired, or HISTORY_LEVEL, if not "full", leaves out creations."""
    settings = get_settings()
    kept = settings.history_time_to_live
    return settings.history_level != "full" or (kept is not None and begin < clock.now(database()) - kept)
