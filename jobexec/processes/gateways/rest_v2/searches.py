"""The searches for definitions, instances, user tasks and variables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest, HttpResponse

from jobexec.gateways import zeebe_format
from jobexec.gateways.rest.camunda8.contract import Pages, Request, Response, optional
from jobexec.gateways.rest.camunda8.endpoint import Operation, endpoint
from jobexec.gateways.rest.camunda8.filters import search_request
from jobexec.gateways.rest.camunda8.values import choice
from jobexec.gateways.rest.common import caller_of, database, json_answer
from jobexec.operations.external.search import MOST

from ...models import ProcessDefinition, ProcessInstance, Variable
from ...models.instance import RUNNING
from ...store.suspensions import suspended_rows
from .. import found
from . import views
from .shown import PROCESS_DEFINITION, PROCESS_INSTANCE, STATES, SUSPENDED, USER_TASK, VARIABLE, truncated

Row = dict[str, Any]
#: The primary key beside the members of a row.
_PK = "pk"


def _ids(column: str, model: type[Model], key: str) -> Callable[[str, Sequence[Any]], Q]:
    def condition(using: str, wanted: Sequence[Any]) -> Q:
        ids = model._base_manager.using(using).filter(**{f"{key}__in": list(wanted)}).values_list("pk", flat=True)
        return Q(**{f"{column}__in": list(ids)})

    return condition


def _states(using: str, wanted: Sequence[Any]) -> Q:
    found = Q(state__in=[ours for theirs in wanted for ours in STATES.get(theirs, ())])
    held = Q(state__in=RUNNING) & suspended_rows(using)
    if "ACTIVE" in wanted and SUSPENDED not in wanted:
        return found & ~held
    return found | held if SUSPENDED in wanted else found


def _tenants(using: str, wanted: Sequence[Any]) -> Q:
    return Q(tenant_id__in=[zeebe_format.tenant_id(each) for each in wanted])


#: What clients compare with, and the condition on our columns.
RESOLVED: Mapping[str, Callable[[str, Sequence[Any]], Q]] = {
    "instance_key": _ids("instance_id", ProcessInstance, "key"),
    "root_key": _ids("root_id", ProcessInstance, "key"),
    "definition_number": _ids("definition_id", ProcessDefinition, "number"),
    "shown_state": _states,
    "shown_tenant": _tenants,
}


def resolved(using: str, where: Q) -> Q:
    """The condition of a filter on the columns that there are; other comparisons are left to its ``matches``."""
    condition = Q()
    for child in where.children:
        name, value = child  # type: ignore[misc]
        column, _, lookup = str(name).partition("__")
        if column not in RESOLVED:
            condition &= Q(child)
        elif lookup in ("", "in"):
            condition &= RESOLVED[column](using, list(value) if lookup else [value])
    return condition


def _search(
    request: HttpRequest,
    body: Mapping[str, Any],
    rows: QuerySet[Any],
    pages: Pages,
    response: Response[...],
    views: Callable[[str, Sequence[Any]], Sequence[Any]],
    only_for: Mapping[str, str] = MappingProxyType({}),
    complete: Callable[[Row], Row] = lambda row: row,
) -> HttpResponse:
    """The newest rows that match the comparisons of columns, at most MOST, are compared and sorted here.

    Only the members that the search filters and sorts by are made of all of them; the rows of the returned page are
    read in full. ``only_for`` has columns by the member that needs them; they are not loaded to compare other members.
    """
    asked, order, using = body["filter"], body["sort"], database()
    names = asked.names | order.names
    deferred = [column for member, column in only_for.items() if member not in names]
    loaded = list(rows.filter(resolved(using, asked.where)).order_by("-pk").defer(*deferred)[:MOST])
    compared = views(using, loaded) if names else [None] * len(loaded)
    matching = []
    for row, view in zip(loaded, compared, strict=True):
        member = response.only(names, view)
        if asked.matches(member):
            matching.append({**member, _PK: row.pk})
    order.sort(matching)

    def whole(part: Sequence[Row]) -> list[Row]:
        found = rows.in_bulk([row[_PK] for row in part])
        there = [found[row[_PK]] for row in part if row[_PK] in found]
        return [complete(response.of(view)) for view in views(using, there)]

    return json_answer(pages.of(body["page"], matching, len(loaded) >= MOST, whole))


_DEFINITIONS = Pages("ProcessDefinitionSearchQueryResult", PROCESS_DEFINITION)
_INSTANCES = Pages("ProcessInstanceSearchQueryResult", PROCESS_INSTANCE)
_TASKS = Pages("UserTaskSearchQueryResult", USER_TASK)
_VARIABLES = Pages("VariableSearchQueryResult", VARIABLE)


def _operation(name: str, summary: str, pages: Pages, response: Response[...], query: Request | None = None) -> Any:
    return Operation(name, summary, search_request(f"{pages.name.removesuffix('Result')}", response), pages, query)


@endpoint(
    "search",
    operation=_operation("searchProcessDefinitions", "Search process definitions", _DEFINITIONS, PROCESS_DEFINITION),
)
def definitions(request: HttpRequest, body: Mapping[str, Any]) -> HttpResponse:
    """POST /process-definitions/search."""
    rows = found.definitions(database(), caller_of(request)).defer("model")
    return _search(request, body, rows, _DEFINITIONS, PROCESS_DEFINITION, views.definition_views)


@endpoint(
    "search",
    operation=_operation("searchProcessInstances", "Search process instances", _INSTANCES, PROCESS_INSTANCE),
)
def instances(request: HttpRequest, body: Mapping[str, Any]) -> HttpResponse:
    """POST /process-instances/search: those that run, and those that have ended and are kept."""
    rows = found.instances(database(), caller_of(request)).defer("final_variables")
    return _search(request, body, rows, _INSTANCES, PROCESS_INSTANCE, views.instance_views)


@endpoint("search", "tasks", operation=_operation("searchUserTasks", "Search user tasks", _TASKS, USER_TASK))
def tasks(request: HttpRequest, body: Mapping[str, Any]) -> HttpResponse:
    """POST /user-tasks/search: those that are not done."""
    rows = found.tasks(database(), caller_of(request))
    return _search(request, body, rows, _TASKS, USER_TASK, views.task_views)


_TRUNCATE = Request(truncateValues=optional(choice(("true", "false"), "true or false"), "true"))


@endpoint(
    "search",
    operation=_operation("searchVariables", "Search variables", _VARIABLES, VARIABLE, _TRUNCATE),
)
def variables(request: HttpRequest, body: Mapping[str, Any], query: Mapping[str, Any]) -> HttpResponse:
    """POST /variables/search: of instances that run."""
    caller = caller_of(request)
    rows = Variable.objects.using(database()).all()
    if caller.tenants is not None:
        seen = found.instances(database(), caller)
        rows = rows.filter(instance_id__in=seen.values("pk"))

    cut = {"complete": truncated} if query["truncateValues"] == "true" else {}
    return _search(request, body, rows, _VARIABLES, VARIABLE, views.variable_views, {"value": "value"}, **cut)
