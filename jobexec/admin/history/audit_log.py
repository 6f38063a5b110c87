"""The audit log."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from django.contrib import admin
from django.core.serializers.json import DjangoJSONEncoder
from django.db.models import QuerySet, TextField
from django.db.models.functions import Cast
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from jobexec.identifiers import as_id
from jobexec.models import AbstractJob, AuditLog, Resource

from ..common import display, filters, text_filters
from ..common.base import TableAdmin
from ..common.tenancy import COLUMN

#: The number of entries on the page of a changed object.
SHOWN = 50
#: Of a group of failures.
_FINGERPRINT = re.compile("[0-9a-f]{16}")


class OperatorFilter(text_filters.TextFilter):
    """Filter by the name of the operator."""

    title = _("operator")
    parameter_name = column = "operator"


class VerbFilter(text_filters.TextFilter):
    """Filter by verb."""

    title = _("verb")
    parameter_name = column = "verb"


@admin.register(AuditLog)
class AuditLogAdmin(TableAdmin):
    """The audit log, newest first."""

    list_display = ("time", "who", "via", "origin", "verb", "object_type", "which", "count", "change")
    list_display_links = ("time",)
    tenant_column = COLUMN
    list_filter = (
        filters.TIMESTAMP,
        "operator_type",
        OperatorFilter,
        VerbFilter,
        text_filters.TenantFilter,
    )
    search_fields = ("object_id__exact", "operator__exact", "origin__exact")
    search_help_text = _("The id or name of an object, an operator, an address or a host.")
    sortable_by = ("time",)
    ordering = ("-timestamp", "-id")
    deferred = ("scope",)
    readonly_fields = ("time", "before", "after", "meant")
    fieldsets = (
        (None, {"fields": ("time", ("operator_type", "operator"), ("via", "origin"))}),
        (_("Change"), {"fields": ("verb", ("object_type", "object_id", "count"), "before", "after", "meant")}),
        (None, {"fields": ("tenant_id",)}),
    )

    def get_search_results(self, request: Any, queryset: QuerySet[Any], search_term: str) -> tuple[QuerySet[Any], bool]:
        found, duplicates = super().get_search_results(request, queryset, search_term)
        if as_id(search_term.strip()) or _FINGERPRINT.fullmatch(search_term.strip()):
            found = found | among_several(queryset, search_term.strip())
        return found, duplicates

    @admin.display(description=_("time"), ordering="timestamp")
    def time(self, entry: AuditLog) -> str:
        return display.absolute(entry.timestamp)

    @admin.display(description=_("operator"))
    def who(self, entry: AuditLog) -> SafeString:
        return who(entry)

    @admin.display(description=_("object"))
    def which(self, entry: AuditLog) -> str | SafeString:
        return display.shortened(entry.object_id, 60)

    @admin.display(description=_("change"))
    def change(self, entry: AuditLog) -> str | SafeString:
        return display.shortened(changed(entry), 80)

    @admin.display(description=_("old value"))
    def before(self, entry: AuditLog) -> str | SafeString:
        return _written(entry.old_value)

    @admin.display(description=_("new value"))
    def after(self, entry: AuditLog) -> str | SafeString:
        return _written(entry.new_value)

    @admin.display(description=_("scope"))
    def meant(self, entry: AuditLog) -> str | SafeString:
        return _written(entry.scope)


def who(entry: AuditLog) -> SafeString:
    """The operator as a badge."""
    return display.badge("person", entry.operator or entry.get_operator_type_display())


def changed(entry: AuditLog) -> str:
    """The change on one line: retries 0 → 3."""
    old = entry.old_value if isinstance(entry.old_value, Mapping) else {}
    new = entry.new_value if isinstance(entry.new_value, Mapping) else {}
    before = {name: f"{_plain(old[name])} → " for name in old if name in new}
    # Not what was written again with the same value, if there is more.
    named = [name for name in new if name not in old or old[name] != new[name]] or new
    return ", ".join(f"{name} {before.get(name, '')}{_plain(new[name])}" for name in named)


def sentence(entry: AuditLog) -> str:
    """The verb and the change."""
    verb, change = entry.verb.replace("_", " "), changed(entry)
    return f"{verb}: {change}" if change else verb


def interventions(row: Any, *also: str) -> QuerySet[AuditLog]:
    """Operators' changes to a job, in any table, alone or among others; or to a resource or another row with a UUID.

    ``also`` are the ids of other rows of the same table.
    """
    entries = AuditLog.objects.using(row._state.db)
    alone = entries.filter(object_id__in={str(row.pk), *also})
    if isinstance(row, Resource):  # known by a name, which others may have, too; that of a refused change is ''
        alone = alone.filter(object_type__in=("resource", ""))
    if isinstance(row, AbstractJob):
        alone = alone | among_several(entries, str(row.pk)).filter(timestamp__gte=row.create_time)
    return alone.defer("scope").order_by("-timestamp", "-pk")[:SHOWN]


def among_several(entries: QuerySet[AuditLog], id: str) -> QuerySet[AuditLog]:
    """Changes of several objects including this one: their scope contains the ids."""
    return entries.alias(_scope=Cast("scope", TextField())).filter(object_id="", _scope__contains=id)


def _plain(value: Any) -> str:
    if value in (None, ""):
        return display.NONE
    return value if isinstance(value, str) else json.dumps(value, cls=DjangoJSONEncoder, ensure_ascii=False)


def _written(value: Any) -> str | SafeString:
    if value is None:
        return display.NONE
    return display.pre(json.dumps(value, cls=DjangoJSONEncoder, ensure_ascii=False, indent=2))
