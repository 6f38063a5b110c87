"""The addresses below /v2."""

from __future__ import annotations

from django.urls import URLPattern, path

from jobexec.gateways.rest.camunda8.endpoint import by_method

from . import calls, changes, searches

CALLS: list[URLPattern] = [
    path("deployments", by_method(POST=calls.deployment)),
    path("process-definitions/search", by_method(POST=searches.definitions)),
    path("process-definitions/<str:process_definition_key>", by_method(GET=calls.definition)),
    path("process-definitions/<str:process_definition_key>/xml", by_method(GET=calls.definition_xml)),
    path("process-instances", by_method(POST=calls.start)),
    path("process-instances/search", by_method(POST=searches.instances)),
    path("process-instances/<str:process_instance_key>", by_method(GET=calls.instance)),
    path("process-instances/<str:process_instance_key>/cancellation", by_method(POST=calls.cancellation)),
    path("process-instances/<str:process_instance_key>/modification", by_method(POST=changes.modification)),
    path("process-instances/<str:process_instance_key>/suspension", by_method(POST=changes.suspension)),
    path("process-instances/<str:process_instance_key>/resumption", by_method(POST=changes.resumption)),
    path("element-instances/<str:element_instance_key>/variables", by_method(PUT=calls.variables)),
    path("variables/search", by_method(POST=searches.variables)),
    path("messages/correlation", by_method(POST=calls.correlation)),
    path("signals/broadcast", by_method(POST=calls.broadcast)),
    path("user-tasks/search", by_method(POST=searches.tasks)),
    path("user-tasks/<str:user_task_key>", by_method(GET=calls.task)),
    path("user-tasks/<str:user_task_key>/assignment", by_method(POST=calls.assignment)),
    path("user-tasks/<str:user_task_key>/assignee", by_method(DELETE=calls.unassignment)),
    path("user-tasks/<str:user_task_key>/completion", by_method(POST=calls.completion)),
]
