"""The addresses below /engine-rest."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponseBase
from django.urls import URLPattern, path
from django.views.decorators.csrf import csrf_exempt

from jobexec.gateways.rest.common import AsyncView
from jobexec.runtime.connections import own_transactions

from . import changes, definitions, instances, tasks


def _by_method(otherwise: AsyncView, **views: AsyncView) -> AsyncView:
    """Dispatch an address by method; any other one is refused by ``otherwise``."""

    @csrf_exempt
    async def dispatch(request: HttpRequest, **parts: Any) -> HttpResponseBase:
        return await views.get(str(request.method), otherwise)(request, **parts)

    view: AsyncView = own_transactions(dispatch)
    return view


_DEFINITION, _INSTANCE, _TASK = "process-definition", "process-instance", "task"
_KEY = f"{_DEFINITION}/key/<str:key>"
_OF_TENANT = f"{_KEY}/tenant-id/<str:tenant>"

CALLS: list[URLPattern] = [
    path("deployment/create", definitions.create_deployment),
    path(_DEFINITION, definitions.definitions),
    path(f"{_DEFINITION}/count", definitions.count),
    path(f"{_DEFINITION}/suspended", changes.suspend_definitions),
    path(_KEY, definitions.definition_of_key),
    path(f"{_KEY}/suspended", changes.suspend_definition_of_key),
    path(f"{_OF_TENANT}/suspended", changes.suspend_definition_of_key),
    path(f"{_KEY}/xml", definitions.xml_of_key),
    path(f"{_KEY}/start", definitions.start_of_key),
    path(_OF_TENANT, definitions.definition_of_key),
    path(f"{_OF_TENANT}/xml", definitions.xml_of_key),
    path(f"{_OF_TENANT}/start", definitions.start_of_key),
    path(f"{_DEFINITION}/<str:id>", definitions.definition),
    path(f"{_DEFINITION}/<str:id>/xml", definitions.xml),
    path(f"{_DEFINITION}/<str:id>/start", definitions.start),
    path(f"{_DEFINITION}/<str:id>/suspended", changes.suspend_definition),
    path("message", instances.message),
    path("signal", instances.signal),
    path(_INSTANCE, instances.instances),
    path(f"{_INSTANCE}/count", instances.count),
    path(f"{_INSTANCE}/<str:id>", _by_method(instances.show, DELETE=instances.delete)),
    path(f"{_INSTANCE}/<str:id>/suspended", changes.suspend_instance),
    path(f"{_INSTANCE}/<str:id>/modification", changes.modify),
    path(f"{_INSTANCE}/<str:id>/variables", _by_method(instances.variables, POST=instances.change_variables)),
    path(f"{_INSTANCE}/<str:id>/variables/<str:name>", _by_method(instances.variable, PUT=instances.set_variable)),
    path(_TASK, tasks.tasks),
    path(f"{_TASK}/count", tasks.count),
    path(f"{_TASK}/<str:id>", tasks.show),
    path(f"{_TASK}/<str:id>/claim", tasks.claim),
    path(f"{_TASK}/<str:id>/unclaim", tasks.unclaim),
    path(f"{_TASK}/<str:id>/assignee", tasks.assignee),
    path(f"{_TASK}/<str:id>/complete", tasks.complete),
    path(f"{_TASK}/<str:id>/bpmnError", tasks.bpmn_error),
    path("incident", instances.incidents),
    path("incident/count", instances.incident_count),
    path("incident/<str:id>", instances.incident),
    path("history/process-instance", instances.history),
    path("history/process-instance/count", instances.history_count),
    path("history/process-instance/<str:id>", instances.historic),
]
