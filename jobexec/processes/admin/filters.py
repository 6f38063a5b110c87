"""Filters of the list of instances."""

from __future__ import annotations

import json
from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy

from jobexec.admin.common.filters import YesNoFilter
from jobexec.admin.common.text_filters import TextFilter
from jobexec.exceptions import InvalidJob
from jobexec.identifiers import as_id
from jobexec.json_values import read_json
from jobexec.models import DeadLetterJob
from jobexec.sensitive import HIDDEN, hide

from ..engine.rows import State
from ..handlers.results import check_variables
from ..models import Execution, ProcessDefinition, Variable
from ..models.instance import RUNNING, value_is
from ..operations.query import is_value
from ..store.suspensions import suspended_rows

#: The latest dead letters of processes that the filter by incident knows.
_MOST_INCIDENTS = 1_000
#: Instances among which the filter by a variable looks, in pages, and those that it finds.
_MOST_READ, _PAGE, _MOST_FOUND = 10_000, 1_000, 1_000


class ProcessFilter(TextFilter):
    """By the key of the process."""

    title = gettext_lazy("process")
    parameter_name = "process"
    column = "definition_key"


class VersionFilter(TextFilter):
    """By the version of the definition."""

    title = gettext_lazy("version")
    parameter_name = "version"

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        value = self.value()
        if not value:
            return queryset
        if not value.isascii() or not value.isdigit() or len(value) > 9:
            return queryset.none()
        return queryset.filter(definition_id__in=_definitions(request, queryset, version=int(value)))


class BusinessKeyFilter(TextFilter):
    """By the whole business key."""

    title = gettext_lazy("business key")
    parameter_name = "business_key"
    column = "business_key"


class ElementFilter(TextFilter):
    """By an element that is active now; quick together with a process or a definition."""

    title = gettext_lazy("element")
    parameter_name = "element"

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if not self.value():
            return queryset
        tokens = Execution.objects.using(queryset.db).exclude(state=State.COMPENSABLE.value)
        tokens = tokens.filter(element_id=self.value())
        if definition := request.GET.get("definition_id"):
            tokens = tokens.filter(definition_id=definition)
        elif request.GET.get(ProcessFilter.parameter_name):
            tokens = tokens.filter(definition_id__in=_definitions(request, queryset))
        return queryset.filter(pk__in=tokens.values("instance_id"))


class IncidentFilter(YesNoFilter):
    """Instances with dead letters, among the latest ones."""

    title = gettext_lazy("incidents")
    parameter_name = "incident"
    choice_labels = (("yes", gettext_lazy("With an incident")),)

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if self.value() != "yes":
            return queryset
        # The ids are texts there and UUIDs here, which databases do not compare alike.
        dead = DeadLetterJob.objects.using(queryset.db).exclude(process_instance_id="").order_by("-died_at")
        texts = dead.values_list("process_instance_id", flat=True)[:_MOST_INCIDENTS]
        return queryset.filter(pk__in={id for id in map(as_id, texts) if id is not None})


class SuspendedFilter(YesNoFilter):
    """Instances that a suspension covers now."""

    title = gettext_lazy("suspended")
    parameter_name = "suspended"
    choice_labels = (("yes", gettext_lazy("Yes")), ("no", gettext_lazy("No")))

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if self.value() not in ("yes", "no"):
            return queryset
        covered, running = suspended_rows(queryset.db), queryset.filter(state__in=RUNNING)
        return running.filter(covered) if self.value() == "yes" else running.exclude(covered)


class VariableFilter(TextFilter):
    """By a variable of running instances, ``name=value``: among the latest of those that the other filters leave.

    The value is JSON; what is none is a text. Users who may not see variables, and names whose values are masked, find
    nothing.
    """

    title = gettext_lazy("variable, as name=value")
    parameter_name = "variable"

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        text = self.value()
        if not text:
            return queryset
        name, mark, value = text.partition("=")
        found = read_value(value)
        try:
            check_variables({name.strip(): found})
        except InvalidJob:
            return queryset.none()
        hidden = HIDDEN in json.dumps(hide({name.strip(): found}), ensure_ascii=False)
        if not mark or hidden or not request.user.has_perm("jobexec_processes.view_variable"):
            return queryset.none()
        running = queryset.filter(state__in=RUNNING).order_by("-pk").values_list("pk", flat=True)
        keys = list(running[:_MOST_READ])
        wanted = Variable.objects.using(queryset.db).filter(value_is(found), name=name.strip())
        chosen: list[Any] = []
        for start in range(0, len(keys), _PAGE):
            rows = wanted.filter(scope_id__in=keys[start : start + _PAGE]).values_list("scope_id", "value")
            chosen += [id for id, stored in rows if is_value(stored, found)]
            if len(chosen) >= _MOST_FOUND:
                break
        return queryset.filter(pk__in=chosen[:_MOST_FOUND])


def read_value(text: str) -> Any:
    """JSON, or a text."""
    try:
        return read_json(text)
    except ValueError:
        return text.strip()


def _definitions(request: HttpRequest, queryset: QuerySet[Any], **which: Any) -> QuerySet[Any]:
    """The keys of the definitions of the process that is filtered by."""
    if process := request.GET.get(ProcessFilter.parameter_name):
        which["key"] = process
    return ProcessDefinition.objects.using(queryset.db).filter(**which).values("pk")
