"""List filters with a text field: no table is read to find choices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from jobexec.conf import get_settings

from .tenancy import COLUMN, tenants_of

CHOICES = 100


class TextFilter(admin.SimpleListFilter):
    """Filter a column by an exact text: a text field, with suggestions that are known without a query."""

    template = "admin/jobexec/text_filter.html"
    column: str
    when_given = False
    """Whether the filter appears only if the URL contains it, because other pages link to it."""

    def known(self, request: HttpRequest) -> list[str]:
        return []

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(text, text) for text in self.known(request)[:CHOICES]]

    def has_output(self) -> bool:
        return bool(self.value()) or not self.when_given

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(**{self.column: self.value()}) if self.value() else queryset

    def choices(self, changelist: Any) -> Iterator[Any]:
        """One choice: the form, with the other parameters of the URL."""
        others = {name: value for name, value in changelist.get_filters_params().items() if name != self.parameter_name}
        if changelist.query:
            others["q"] = [changelist.query]
        yield {
            "others": [(name, value) for name, values in others.items() for value in values],
            "without": changelist.get_query_string(remove=[self.parameter_name]),
        }


class TenantFilter(TextFilter):
    """Filter by tenant; suggests the tenants of users who are limited to some."""

    title = _("tenant")
    parameter_name = "tenant"
    column = COLUMN

    def known(self, request: HttpRequest) -> list[str]:
        return sorted(filter(None, tenants_of(request) or ()))


class ResourceFilter(TextFilter):
    """Filter by resource; suggests those that RESOURCES names."""

    title = _("resource")
    parameter_name = "resource"
    column = "resource"

    def known(self, request: HttpRequest) -> list[str]:
        return [name for name in get_settings().resources if not name.endswith("*")]


class DefinitionKeyFilter(TextFilter):
    """Filter by process definition, for pages that link here."""

    title = _("process definition")
    parameter_name = "process_definition"
    column = "process_definition_key"
    when_given = True


class FingerprintFilter(TextFilter):
    """Filter by group of failures, for the page of the group."""

    title = _("group of failures")
    parameter_name = "fingerprint"
    column = "fingerprint"
    when_given = True


class MessageFilter(TextFilter):
    """Filter messages by their name."""

    title = _("name")
    parameter_name = "message"
    column = "name"


class WaitsForFilter(TextFilter):
    """Filter by the name of the message that jobs wait for."""

    title = pgettext_lazy("for jobs that wait", "message")
    parameter_name = column = "waits_for"


class WaitsForKeyFilter(TextFilter):
    """Filter by the key of the message; in links from other pages."""

    title = _("key of the message")
    parameter_name = column = "waits_for_key"
    when_given = True
