"""List filters. None of them reads all distinct values of a large table to build its choices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from django.contrib import admin
from django.db import router
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from rangefilter.filters import DateTimeRangeFilterBuilder, NumericRangeFilterBuilder

from jobexec.conf import get_settings
from jobexec.identifiers import OWN
from jobexec.models import IncidentState, JobDefinition
from jobexec.operations.values.humanize import handler_name

from .base import FROM_PAGE
from .tenancy import is_restricted

PRIORITY = ("priority", NumericRangeFilterBuilder(title=_("priority")))
DUE_DATE = ("due_date", DateTimeRangeFilterBuilder(title=_("due date")))
CREATE_TIME = ("create_time", DateTimeRangeFilterBuilder(title=_("create time")))
DIED_AT = ("died_at", DateTimeRangeFilterBuilder(title=_("time of death")))
SUSPENDED_AT = ("suspended_at", DateTimeRangeFilterBuilder(title=_("suspended at")))
TIMESTAMP = ("timestamp", DateTimeRangeFilterBuilder(title=_("timestamp")))


class HandlerFilter(admin.SimpleListFilter):
    """Filter by handler; offers the handlers that executors have registered, and jobexec's own as one."""

    title = _("handler")
    parameter_name = "handler"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        if is_restricted(request):
            return []  # job definitions belong to no tenant
        definitions = JobDefinition.objects.using(router.db_for_read(model_admin.model))
        ours = definitions.exclude(handler_type__startswith=OWN).order_by("handler_type")
        names = list(ours.values_list("handler_type", flat=True).distinct()[:200])
        return [(name, handler_name(name)) for name in (*names, OWN)] if names else []

    def has_output(self) -> bool:
        return bool(self.value()) or super().has_output()  # also of what other pages link to

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if self.value() == OWN:
            return queryset.filter(handler_type__startswith=OWN)
        return queryset.filter(handler_type=self.value()) if self.value() else queryset


class CategoryFilter(admin.SimpleListFilter):
    """Filter by category; offers the categories of the settings."""

    title = _("category")
    parameter_name = "in_category"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(name, name) for name in get_settings().categories]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(category=self.value()) if self.value() else queryset


class YesNoFilter(admin.SimpleListFilter):
    """A filter with two choices, each with its own condition."""

    choice_labels: tuple[tuple[str, Any], ...] = ()
    conditions: dict[str, dict[str, Any]] = {}

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, Any]]:
        return self.choice_labels

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(**self.conditions.get(self.value() or "", {}))


class LockFilter(YesNoFilter):
    """Whether a job is free or held by a node."""

    title = _("lock")
    parameter_name = "lock"
    choice_labels = (("free", _("Free")), ("held", _("In progress")))
    conditions = {"free": {"lock_owner": None}, "held": {"lock_owner__isnull": False}}


class WaitingFilter(YesNoFilter):
    """Whether a timer job waits for its first attempt or for a retry."""

    title = _("waiting for")
    parameter_name = "waiting"
    choice_labels = (("time", _("First attempt")), ("retry", _("Retry")))
    conditions = {"time": {"attempts": 0}, "retry": {"attempts__gt": 0}}


class IncidentStateFilter(admin.SimpleListFilter):
    """Filter incidents by state; without a choice, only open ones."""

    title = _("state")
    parameter_name = "state__exact"
    ALL = "all"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [*IncidentState.choices, (self.ALL, _("All"))]

    def value(self) -> str:
        return super().value() or IncidentState.OPEN

    def choices(self, changelist: Any) -> Iterator[Any]:
        for value, title in self.lookup_choices:
            query = changelist.get_query_string({self.parameter_name: value})
            yield {"selected": self.value() == str(value), "query_string": query, "display": title}

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if self.value() == self.ALL or FROM_PAGE in request.POST:  # the buttons of a page are about its row
            return queryset
        return queryset.filter(state=self.value())
