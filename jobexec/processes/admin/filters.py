"""Filters of the list of instances."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy

from jobexec.admin.common.filters import YesNoFilter
from jobexec.admin.common.text_filters import TextFilter
from jobexec.identifiers import as_id
from jobexec.models import DeadLetterJob

from ..engine.rows import State
from ..models import Execution, ProcessDefinition

#: The latest dead letters of processes that the filter by incident knows.
_MOST_INCIDENTS = 1_000


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
    """By an element at which something stands now; quick together with a process or a definition."""

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
    """Instances with dead letters: those of the latest ones."""

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


def _definitions(request: HttpRequest, queryset: QuerySet[Any], **which: Any) -> QuerySet[Any]:
    """The keys of the definitions of the process that is filtered by."""
    if process := request.GET.get(ProcessFilter.parameter_name):
        which["key"] = process
    return ProcessDefinition.objects.using(queryset.db).filter(**which).values("pk")
