"""URLs of Camunda 7's REST API, for the default engine and for a named one: external tasks, and what apps add."""

from __future__ import annotations

from django.urls import URLPattern, path

from jobexec.gateways import added

from . import engines, fetching, files, lists, retries, tasks

_TASK = "external-task"

_CALLS = [
    path("version", engines.version),
    path(_TASK, lists.tasks),
    path(f"{_TASK}/", lists.tasks),
    path(f"{_TASK}/count", lists.count),
    path(f"{_TASK}/topic-names", lists.topic_names),
    path(f"{_TASK}/fetchAndLock", fetching.fetch_and_lock),
    path(f"{_TASK}/retries", retries.of_many),
    path(f"{_TASK}/retries-async", retries.of_many_later),
    path(f"{_TASK}/<str:id>", tasks.show),
    path(f"{_TASK}/<str:id>/complete", tasks.complete),
    path(f"{_TASK}/<str:id>/failure", tasks.failure),
    path(f"{_TASK}/<str:id>/bpmnError", tasks.bpmn_error),
    path(f"{_TASK}/<str:id>/extendLock", tasks.extend_lock),
    path(f"{_TASK}/<str:id>/lock", tasks.lock),
    path(f"{_TASK}/<str:id>/unlock", tasks.unlock),
    path(f"{_TASK}/<str:id>/errorDetails", tasks.error_details),
    path(f"{_TASK}/<str:id>/retries", retries.of_one),
    path(f"{_TASK}/<str:id>/priority", retries.priority),
    path("execution/<str:id>/localVariables/<str:name>/data", files.data),
    *(call for calls in added.calls(added.CAMUNDA_7) for call in calls),
]


def _of_named_engine(call: URLPattern) -> URLPattern:
    return path(f"engine/<str:engine>/{call.pattern}", call.callback)


urlpatterns: list[URLPattern] = [
    path("engine", engines.engines),
    path("engine/", engines.engines),
    *_CALLS,
    *(_of_named_engine(call) for call in _CALLS),
]
