"""List filters that take a text: no table is read to find what could be chosen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from .tenancy import COLUMN, tenants_of

CHOICES = 100


class TextFilter(admin.SimpleListFilter):
    """A column that equals a text; a field to type it into, and the choices that are known without looking."""

    template = "admin/jobexec/text_filter.html"
    column: str
    when_given = False
    """Whether it shows itself only when the address has it: other pages lead to it."""

    def known(self, request: HttpRequest) -> list[str]:
        """What can be offered."""
        return []

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(text, text) for text in self.known(request)[:CHOICES]]

    def has_output(self) -> bool:
        return bool(self.value()) or not self.when_given

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(**{self.column: self.value()}) if self.value() else queryset

    def choices(self, changelist: Any) -> Iterator[Any]:
        """One choice: the form, with what else the address says."""
        others = {name: value for name, value in changelist.get_filters_params().items() if name != self.parameter_name}
        if changelist.query:
            others["q"] = [changelist.query]
        yield {
            "others": [(name, value) for name, values in others.items() for value in values],
            "without": changelist.get_query_string(remove=[self.parameter_name]),
        }


class TenantFilter(TextFilter):
    """By tenant; who may see some only chooses among those."""

    title = _("tenant")
    parameter_name = "tenant"
    column = COLUMN

    def known(self, request: HttpRequest) -> list[str]:
        return sorted(filter(None, tenants_of(request) or ()))


class DefinitionKeyFilter(TextFilter):
    """By process definition, for pages that lead here."""

    title = _("process definition")
    parameter_name = "process_definition"
    column = "process_definition_key"
    when_given = True


class FingerprintFilter(TextFilter):
    """Failures that look alike, for the page of their group."""

    title = _("group of failures")
    parameter_name = "fingerprint"
    column = "fingerprint"
    when_given = True
