"""Process instances, their variables, incidents and history; messages and signals."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse

from jobexec.gateways.rest.camunda7.bodies import Body, body_of
from jobexec.gateways.rest.camunda7.endpoint import endpoint
from jobexec.gateways.rest.camunda7.errors import EngineError, invalid
from jobexec.gateways.rest.camunda7.variables import NOTE, to_json, to_typed
from jobexec.gateways.rest.common import caller_of, database, json_answer, nothing
from jobexec.identifiers import as_id
from jobexec.models import Incident, IncidentState
from jobexec.operations.external.search import visible

from ...exceptions import MismatchingMessage
from ...models import InstanceState, ProcessInstance
from ...models.instance import RUNNING
from ...store.suspensions import suspended_rows
from .. import found, verbs
from . import shown
from .access import instance_by_id, missing, tenant_of, values_of, variables_in
from .queries import TENANTS, WITHOUT_TENANT, Query, equals, id_lists, ids

_TEXTS = {
    "processInstanceBusinessKey": equals("business_key"),
    "processInstanceBusinessKeyLike": lambda value: Q(business_key__startswith=value.rstrip("%")),
    "processDefinitionId": equals("definition_id"),
    "processDefinitionKey": equals("definition_key"),
    "rootProcessInstanceId": ids("root_id"),
}
_LISTS = TENANTS | {
    "processInstanceIds": id_lists("pk"),
    "processDefinitionKeyIn": lambda values: Q(definition_key__in=values),
}
_RUNNING = Query(
    texts=_TEXTS | {"businessKey": equals("business_key"), "businessKeyLike": _TEXTS["processInstanceBusinessKeyLike"]},
    lists=_LISTS,
    flags=WITHOUT_TENANT
    | {"suspended": lambda: suspended_rows(database()), "active": lambda: ~suspended_rows(database())},
    sorts={
        "instanceId": "pk",
        "definitionId": "definition_id",
        "definitionKey": "definition_key",
        "tenantId": "tenant_id",
        "businessKey": "business_key",
    },
)
_HISTORIC = Query(
    texts=_TEXTS | {"processInstanceId": ids("pk"), "startedBy": equals("start_user")},
    lists=_LISTS,
    flags=WITHOUT_TENANT
    | {
        "finished": Q(end_time__isnull=False),
        "unfinished": Q(end_time__isnull=True),
        "active": Q(state__in=RUNNING),
        "completed": Q(state__in=(InstanceState.COMPLETED, InstanceState.TERMINATED)),
        "externallyTerminated": Q(state=InstanceState.CANCELLED),
    },
    moments={
        "startedBefore": "start_time__lte",
        "startedAfter": "start_time__gte",
        "finishedBefore": "end_time__lte",
        "finishedAfter": "end_time__gte",
    },
    sorts={
        "instanceId": "pk",
        "definitionId": "definition_id",
        "definitionKey": "definition_key",
        "businessKey": "business_key",
        "startTime": "start_time",
        "endTime": "end_time",
        "tenantId": "tenant_id",
    },
)
_INCIDENTS = Query(
    texts={
        "incidentId": ids("pk"),
        "incidentType": equals("type"),
        "incidentMessage": equals("message"),
        "processInstanceId": equals("process_instance_id"),
        "activityId": equals("failed_activity_id"),
        "failedActivityId": equals("failed_activity_id"),
        "configuration": ids("job_id"),
    },
    lists=TENANTS | {"processDefinitionKeyIn": lambda values: Q(process_definition_key__in=values)},
    sorts={"incidentId": "pk", "incidentTimestamp": "timestamp", "incidentType": "type", "tenantId": "tenant_id"},
)


def _running(request: HttpRequest) -> QuerySet[ProcessInstance]:
    return found.instances(database(), caller_of(request)).filter(state__in=RUNNING).defer("final_variables")


@endpoint("GET", "POST", permission="search")
def instances(request: HttpRequest) -> HttpResponse:
    return _RUNNING.page(request, _running(request), lambda rows: shown.instances(database(), rows))


@endpoint("GET", "POST", permission="search")
def count(request: HttpRequest) -> HttpResponse:
    return _RUNNING.count(request, _running(request))


def _show(request: HttpRequest, id: str) -> HttpResponse:
    return json_answer(shown.instances(database(), [instance_by_id(request, id)])[0])


def _delete(request: HttpRequest, id: str) -> HttpResponse:
    skip = request.GET.get("skipCustomListeners", "").lower() == "true"
    verbs.cancel(database(), instance_by_id(request, id), skip_listeners=skip)
    return nothing()


show = endpoint("GET", permission="search")(_show)
delete = endpoint("DELETE", permission="update")(_delete)


def _variables(request: HttpRequest, id: str) -> HttpResponse:
    deserialize = request.GET.get("deserializeValues", "true").lower() != "false"
    return json_answer(to_typed(values_of(instance_by_id(request, id)), deserialize=deserialize))


def _change_variables(request: HttpRequest, id: str) -> HttpResponse:
    """``modifications``; ``deletions`` are refused: a variable may be set to null."""
    body = body_of(request)
    if body.texts("deletions"):
        raise invalid("deletions: expected none: variables are not deleted; set them to null.")
    return _set(request, id, to_json(body.mapping("modifications"), "modifications"))


variables = endpoint("GET", permission="search")(_variables)
change_variables = endpoint("POST", permission="update")(_change_variables)


def _variable(request: HttpRequest, id: str, name: str) -> HttpResponse:
    deserialize = request.GET.get("deserializeValue", "true").lower() != "false"
    values = values_of(instance_by_id(request, id))
    some = {each: values[each] for each in (name, f"{name}{NOTE}") if each in values}
    typed = to_typed(some, deserialize=deserialize)
    return json_answer(
        typed[name] if name in typed else missing(f"process instance variable with name {name} does not exist")
    )


def _set_variable(request: HttpRequest, id: str, name: str) -> HttpResponse:
    return _set(request, id, to_json({name: dict(body_of(request).members)}))


variable = endpoint("GET", permission="search")(_variable)
set_variable = endpoint("PUT", permission="update")(_set_variable)


def _set(request: HttpRequest, id: str, values: dict[str, Any]) -> HttpResponse:
    row = instance_by_id(request, id)
    scope = found.Scope(row.root_id, row.pk, row.pk, row.tenant_id)
    verbs.set_variables(database(), row.pk, values, scope=scope)
    return nothing()


@endpoint("GET", "POST", permission="search")
def history(request: HttpRequest) -> HttpResponse:
    rows = found.instances(database(), caller_of(request)).defer("final_variables")
    return _HISTORIC.page(request, rows, lambda page: shown.historic(database(), page))


@endpoint("GET", "POST", permission="search")
def history_count(request: HttpRequest) -> HttpResponse:
    return _HISTORIC.count(request, found.instances(database(), caller_of(request)))


@endpoint("GET", permission="search")
def historic(request: HttpRequest, id: str) -> HttpResponse:
    return json_answer(shown.historic(database(), [instance_by_id(request, id, running=False)])[0])


def _incidents(request: HttpRequest) -> QuerySet[Incident]:
    """Open incidents of processes and of external jobs, of the client's types and tenants."""
    rows = Incident.objects.using(database()).filter(state=IncidentState.OPEN)
    of_clients = ~Q(process_definition_key="") | Q(incident_key__isnull=False)
    return visible(rows.filter(of_clients), caller_of(request))


@endpoint("GET", permission="search")
def incidents(request: HttpRequest) -> HttpResponse:
    return _INCIDENTS.page(request, _incidents(request), partial(shown.incidents, database()))


@endpoint("GET", permission="search")
def incident_count(request: HttpRequest) -> HttpResponse:
    return _INCIDENTS.count(request, _incidents(request))


@endpoint("GET", permission="search")
def incident(request: HttpRequest, id: str) -> HttpResponse:
    row = _incidents(request).filter(ids("pk")(id)).first()
    return json_answer(shown.incidents(database(), [row or missing(f"No matching incident with id {id}")])[0])


@endpoint("POST", permission="publish")
def message(request: HttpRequest) -> HttpResponse:
    """POST /message: to exactly one that waits, or with ``all`` to all."""
    body = body_of(request)
    if body.mapping("localCorrelationKeys") or body.mapping("processVariablesLocal"):
        raise invalid("localCorrelationKeys, processVariablesLocal: expected none.")
    name, tenant, caller = body.needed_text("messageName"), tenant_of(body), caller_of(request)
    given = {"variables": variables_in(body, "processVariables"), "tenant_id": tenant, "caller": caller}
    given |= {"all": body.flag("all"), "business_key": body.text("businessKey")}
    try:
        rows = _correlate(body, name, given)
    except MismatchingMessage as error:
        raise EngineError(400, "RestException", str(error)) from error
    if not body.flag("resultEnabled"):
        return nothing()
    return json_answer([_result(row) for row in rows])


def _correlate(body: Body, name: str, given: dict[str, Any]) -> list[ProcessInstance]:
    keys = to_json(body.mapping("correlationKeys"), "correlationKeys")
    id = body.text("processInstanceId")
    instance = None if id is None else as_id(id)
    if id is not None and instance is None:
        raise MismatchingMessage(f"The message {name!r} matches no instance with the id {id!r}.")
    return verbs.correlate_message(database(), name, instance=instance, match=keys, **given)


def _result(row: ProcessInstance) -> dict[str, Any]:
    execution = {"id": str(row.pk), "processInstanceId": str(row.pk), "ended": row.state not in RUNNING}
    execution["tenantId"] = row.tenant_id or None
    return {"resultType": "Execution", "execution": execution, "processInstance": shown.instances(database(), [row])[0]}


@endpoint("POST", permission="publish")
def signal(request: HttpRequest) -> HttpResponse:
    """POST /signal: to all that wait for it."""
    body = body_of(request)
    if body.has("executionId"):
        raise invalid("executionId: expected none: a signal goes to all that wait for it.")
    verbs.broadcast_signal(
        database(),
        body.needed_text("name"),
        variables_in(body),
        tenant_id=tenant_of(body),
        caller=caller_of(request),
    )
    return nothing()
