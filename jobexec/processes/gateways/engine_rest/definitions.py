"""Deployments and process definitions."""

from __future__ import annotations

from django.core.exceptions import SuspiciousOperation
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.http.multipartparser import MultiPartParserError

from jobexec.gateways.auth import client_of
from jobexec.gateways.rest.camunda7.bodies import body_of
from jobexec.gateways.rest.camunda7.endpoint import endpoint
from jobexec.gateways.rest.camunda7.errors import invalid
from jobexec.gateways.rest.camunda7.variables import to_typed
from jobexec.gateways.rest.common import caller_of, database, json_answer

from ...models import ProcessDefinition, ProcessDeployment
from ...store.definitions import NOT_STARTABLE
from ...store.suspensions import suspended_definition_rows
from .. import found, verbs
from . import shown
from .access import definition_by_id, definition_by_key, values_of, variables_in
from .changes import instructions
from .queries import TENANTS, WITHOUT_TENANT, Query, equals, ids

_QUERY = Query(
    texts={
        "processDefinitionId": equals("pk"),
        "key": equals("key"),
        "keyLike": lambda value: Q(key__startswith=value.rstrip("%")),
        "name": equals("name"),
        "version": lambda value: Q(version=value) if value.isdecimal() and len(value) < 10 else Q(pk__in=[]),
        "versionTag": equals("version_tag"),
        "deploymentId": ids("deployment_id"),
    },
    lists=TENANTS
    | {
        "processDefinitionIdIn": lambda values: Q(pk__in=values),
        "keysIn": lambda values: Q(key__in=values),
    },
    flags=WITHOUT_TENANT
    | {
        "suspended": lambda: suspended_definition_rows(database()),
        "active": lambda: ~suspended_definition_rows(database()),
        "startableInTasklist": ~NOT_STARTABLE,
        "notStartableInTasklist": NOT_STARTABLE,
    },
    sorts={
        "id": "pk",
        "key": "key",
        "name": "name",
        "version": "version",
        "deploymentId": "deployment_id",
        "tenantId": "tenant_id",
    },
)


@endpoint("POST", permission="deploy", form_limit=verbs.MOST_BYTES)
def create_deployment(request: HttpRequest) -> HttpResponse:
    """POST /deployment/create: a form with files; an unchanged file makes no version."""
    try:
        files = [(file.name or "", file) for name in request.FILES for file in request.FILES.getlist(name)]
        given = request.POST
    except (MultiPartParserError, SuspiciousOperation) as error:
        raise invalid(f"The body: expected a form with files: {error}.") from error
    made = verbs.deploy_files(
        database(),
        [(name, file.read()) for name, file in files],
        tenant_id=given.get("tenant-id", ""),
        name=given.get("deployment-name", ""),
        caller=caller_of(request),
        user=client_of(request).user_name,
    )
    if not made:
        raise invalid("The files: expected an executable process, got none.")
    row = next((each for each in made if each.is_new), made[0]).definition
    of = ProcessDeployment.objects.using(database()).get(pk=str(row.deployment_id))
    return json_answer(shown.deployment(database(), of, made))


def _rows(request: HttpRequest) -> QuerySet[ProcessDefinition]:
    """``latestVersion``: the highest version of each key of each tenant."""
    rows = found.definitions(database(), caller_of(request)).defer("model")
    if request.GET.get("latestVersion", "").lower() != "true":
        return rows
    later = ProcessDefinition.objects.using(database()).filter(
        key=OuterRef("key"), tenant_id=OuterRef("tenant_id"), version__gt=OuterRef("version")
    )
    return rows.filter(~Exists(later))


@endpoint("GET", permission="search")
def definitions(request: HttpRequest) -> HttpResponse:
    return _QUERY.page(request, _rows(request), lambda page: shown.definitions(database(), page))


@endpoint("GET", permission="search")
def count(request: HttpRequest) -> HttpResponse:
    return _QUERY.count(request, _rows(request))


@endpoint("GET", permission="search")
def definition(request: HttpRequest, id: str) -> HttpResponse:
    return _shown(definition_by_id(request, id))


@endpoint("GET", permission="search")
def definition_of_key(request: HttpRequest, key: str, tenant: str | None = None) -> HttpResponse:
    return _shown(definition_by_key(request, key, tenant))


def _shown(row: ProcessDefinition) -> HttpResponse:
    return json_answer(shown.definitions(database(), [row])[0])


@endpoint("GET", permission="search")
def xml(request: HttpRequest, id: str) -> HttpResponse:
    return _xml(definition_by_id(request, id))


@endpoint("GET", permission="search")
def xml_of_key(request: HttpRequest, key: str, tenant: str | None = None) -> HttpResponse:
    return _xml(definition_by_key(request, key, tenant))


def _xml(row: ProcessDefinition) -> HttpResponse:
    return json_answer({"id": row.pk, "bpmn20Xml": found.resource(database(), row).text})


@endpoint("POST", permission="start")
def start(request: HttpRequest, id: str) -> HttpResponse:
    return _start(request, definition_by_id(request, id))


@endpoint("POST", permission="start")
def start_of_key(request: HttpRequest, key: str, tenant: str | None = None) -> HttpResponse:
    return _start(request, definition_by_key(request, key, tenant))


def _start(request: HttpRequest, definition: ProcessDefinition) -> HttpResponse:
    body = body_of(request)
    if body.has("caseInstanceId"):
        raise invalid("caseInstanceId: expected none: a process belongs to no case.")
    row = verbs.start_process(
        database(),
        definition,
        variables_in(body),
        business_key=body.text("businessKey") or "",
        user=client_of(request).user_name,
        commands=instructions(body, "startInstructions"),
    )
    answer = shown.instances(database(), [row])[0]
    if body.flag("withVariablesInReturn"):
        answer["variables"] = to_typed(values_of(row))
    return json_answer(answer)
