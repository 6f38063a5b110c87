"""The rows that a client names by Camunda 7's ids, among those that it may see."""

from __future__ import annotations

from typing import Any, NoReturn

from django.http import HttpRequest

from jobexec.gateways.rest.camunda7.bodies import Body
from jobexec.gateways.rest.camunda7.errors import EngineError, invalid
from jobexec.gateways.rest.camunda7.variables import to_json
from jobexec.gateways.rest.common import caller_of, database
from jobexec.sensitive import hide

from ...models import ProcessDefinition, ProcessInstance, UserTask, Variable
from ...models.instance import RUNNING
from .. import found
from .queries import ids


def missing(message: str) -> NoReturn:
    raise EngineError(404, "InvalidRequestException", message)


def definition_by_id(request: HttpRequest, id: str) -> ProcessDefinition:
    row = found.definitions(database(), caller_of(request)).filter(pk=id).first()
    return row or missing(f"No matching process definition with id {id}")


def definition_by_key(request: HttpRequest, key: str, tenant: str | None = None) -> ProcessDefinition:
    """The latest version, without a tenant or of the only tenant that has the key. Raises EngineError."""
    rows = found.definitions(database(), caller_of(request)).filter(key=key)
    if tenant is None:
        tenants = set(rows.order_by().values_list("tenant_id", flat=True).distinct())
        if len(tenants) > 1 and "" not in tenants:
            raise invalid(f"There are process definitions with key {key} of several tenants; name one of them.")
        tenant = "" if "" in tenants else next(iter(tenants), "")
    row = rows.filter(tenant_id=tenant).order_by("-version").first()
    return row or missing(f"No matching process definition with key: {key}")


def instance_by_id(request: HttpRequest, id: str, *, running: bool = True) -> ProcessInstance:
    rows = found.instances(database(), caller_of(request))
    row = rows.filter(ids("pk")(id)).first()
    if row is None or (running and row.state not in RUNNING):
        missing(f"Process instance with id {id} does not exist")
    return row


def task_by_id(request: HttpRequest, id: str) -> UserTask:
    rows = found.tasks(database(), caller_of(request))
    row = rows.filter(ids("pk")(id)).first()
    return row or missing(f"No matching task with id {id}")


def values_of(row: ProcessInstance) -> dict[str, Any]:
    """The variables of an instance that runs, or that it ended with, without what is sensitive."""
    running = Variable.objects.using(database()).filter(scope_id=row.pk).values_list("name", "value")
    return dict(hide(row.final_variables or dict(running)))


def tenant_of(body: Body) -> str:
    return "" if body.flag("withoutTenantId") else body.text("tenantId") or ""


def variables_in(body: Body, name: str = "variables") -> dict[str, Any]:
    return to_json(body.mapping(name), name)
