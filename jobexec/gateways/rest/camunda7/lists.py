"""Operators' queries: task lists, counts and topic names."""

from __future__ import annotations

from django.db.models import Q
from django.http import HttpRequest, HttpResponse

from jobexec import clock
from jobexec.gateways.rest.common import caller_of, database, json_answer
from jobexec.models import EXTERNAL_TABLES
from jobexec.operations.external.search import external_rows

from .bodies import Body, body_of
from .endpoint import endpoint
from .queries import TaskQuery, of_address, page_of
from .shown import task


@endpoint("GET", "POST", permission="search")
def tasks(request: HttpRequest) -> HttpResponse:
    query = TaskQuery(database(), caller_of(request), _asked(request))
    return json_answer([task(row) for row in query.rows(*page_of(request))])


@endpoint("GET", "POST", permission="search")
def count(request: HttpRequest) -> HttpResponse:
    return json_answer({"count": TaskQuery(database(), caller_of(request), _asked(request)).count()})


@endpoint("GET", permission="search")
def topic_names(request: HttpRequest) -> HttpResponse:
    """The topics that have tasks, optionally only tasks that meet the conditions."""
    given, now = of_address(request), clock.now(database())
    condition = Q()
    if given.flag("withLockedTasks"):
        condition &= Q(lock_expiration_time__gt=now)
    if given.flag("withUnlockedTasks"):
        condition &= Q(lock_expiration_time=None) | Q(lock_expiration_time__lte=now)
    if given.flag("withRetriesLeft"):
        condition &= Q(retries__gt=0)
    names: set[str] = set()
    for table in EXTERNAL_TABLES:
        rows = external_rows(database(), table, caller_of(request)).filter(condition)
        names.update(rows.order_by().values_list("handler_type", flat=True).distinct())
    return json_answer(sorted(names))


def _asked(request: HttpRequest) -> Body:
    return body_of(request) if request.method == "POST" else of_address(request)
