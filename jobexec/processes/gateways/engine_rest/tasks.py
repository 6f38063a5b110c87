"""User tasks."""

from __future__ import annotations

from django.db.models import Q
from django.http import HttpRequest, HttpResponse

from jobexec.gateways.rest.camunda7.bodies import body_of
from jobexec.gateways.rest.camunda7.endpoint import endpoint
from jobexec.gateways.rest.camunda7.variables import to_typed
from jobexec.gateways.rest.common import caller_of, database, json_answer, nothing

from ...models import ProcessInstance, TaskCandidate
from ...models.instance import RUNNING
from ...operations import user_tasks
from ...store.suspensions import suspended_rows
from .. import found, verbs
from . import shown
from .access import task_by_id, values_of, variables_in
from .queries import TENANTS, WITHOUT_TENANT, Query, equals, id_lists, ids


def _of_suspended() -> Q:
    rows = ProcessInstance.objects.using(database()).filter(suspended_rows(database()), state__in=RUNNING)
    return Q(instance_id__in=rows.values("pk"))


def _candidate(kind: str, *names: str) -> Q:
    rows = TaskCandidate.objects.using(database()).filter(kind=kind, name__in=names)
    return Q(assignee="", pk__in=rows.values("task_id"))


_QUERY = Query(
    texts={
        "taskId": ids("pk"),
        "processInstanceId": ids("instance_id"),
        "processInstanceBusinessKey": lambda value: Q(
            instance_id__in=ProcessInstance.objects.using(database()).filter(business_key=value).values("pk")
        ),
        "executionId": ids("owner_id"),
        "processDefinitionId": equals("definition_id"),
        "processDefinitionKey": lambda value: Q(
            instance_id__in=ProcessInstance.objects.using(database()).filter(definition_key=value).values("pk")
        ),
        "assignee": equals("assignee"),
        "name": equals("name"),
        "taskDefinitionKey": equals("element_id"),
        "candidateUser": lambda value: _candidate(TaskCandidate.USER, value),
        "candidateGroup": lambda value: _candidate(TaskCandidate.GROUP, value),
    },
    lists=TENANTS
    | {
        "taskIdIn": id_lists("pk"),
        "processInstanceIdIn": id_lists("instance_id"),
        "assigneeIn": lambda values: Q(assignee__in=values),
        "taskDefinitionKeyIn": lambda values: Q(element_id__in=values),
        "candidateGroups": lambda values: _candidate(TaskCandidate.GROUP, *values),
    },
    flags=WITHOUT_TENANT
    | {
        "assigned": ~Q(assignee=""),
        "unassigned": Q(assignee=""),
        "suspended": _of_suspended,
        "active": lambda: ~_of_suspended(),
    },
    moments={
        "createdBefore": "create_time__lt",
        "createdAfter": "create_time__gt",
        "dueBefore": "due_date__lt",
        "dueAfter": "due_date__gt",
    },
    sorts={
        "id": "pk",
        "name": "name",
        "assignee": "assignee",
        "created": "create_time",
        "dueDate": "due_date",
        "followUpDate": "follow_up_date",
        "priority": "priority",
        "instanceId": "instance_id",
        "tenantId": "tenant_id",
    },
)


@endpoint("GET", "POST", permission="search")
def tasks(request: HttpRequest) -> HttpResponse:
    rows = found.tasks(database(), caller_of(request))
    return _QUERY.page(request, rows, lambda page: shown.tasks(database(), page))


@endpoint("GET", "POST", permission="search")
def count(request: HttpRequest) -> HttpResponse:
    return _QUERY.count(request, found.tasks(database(), caller_of(request)))


@endpoint("GET", permission="search")
def show(request: HttpRequest, id: str) -> HttpResponse:
    return json_answer(shown.tasks(database(), [task_by_id(request, id)])[0])


@endpoint("POST", permission="tasks")
def claim(request: HttpRequest, id: str) -> HttpResponse:
    return _assign(request, id, override=False)


@endpoint("POST", permission="tasks")
def assignee(request: HttpRequest, id: str) -> HttpResponse:
    """POST /task/{id}/assignee: also instead of another; null takes it from whoever has it."""
    return _assign(request, id, override=True)


def _assign(request: HttpRequest, id: str, *, override: bool) -> HttpResponse:
    row, user = task_by_id(request, id), body_of(request).text("userId")
    if user is None and override:
        user_tasks.release(row, using=database())
    else:
        verbs.check_user(user or "")
        user_tasks.claim(row, user, override=override, using=database())
    return nothing()


@endpoint("POST", permission="tasks")
def unclaim(request: HttpRequest, id: str) -> HttpResponse:
    user_tasks.release(task_by_id(request, id), using=database())
    return nothing()


@endpoint("POST", permission="tasks")
def complete(request: HttpRequest, id: str) -> HttpResponse:
    row, body = task_by_id(request, id), body_of(request)
    user_tasks.complete(row, variables_in(body), using=database())
    if not body.flag("withVariablesInReturn"):
        return nothing()
    instance = ProcessInstance.objects.using(database()).get(pk=row.instance_id)
    return json_answer(to_typed(values_of(instance)))


@endpoint("POST", permission="tasks")
def bpmn_error(request: HttpRequest, id: str) -> HttpResponse:
    row, body = task_by_id(request, id), body_of(request)
    code, message = body.needed_text("errorCode"), body.text("errorMessage") or ""
    user_tasks.throw_error(row, code, message, variables_in(body), using=database())
    return nothing()
