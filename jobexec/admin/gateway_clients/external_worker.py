"""External workers that gateways have seen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils.formats import number_format
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext

from jobexec import clock
from jobexec.conf import get_settings
from jobexec.models import ExternalWorker, ExternalWorkerJob
from jobexec.operations.reports.worker_table import PRESENT_FOR, jobs_held

from ..common import display, text_filters
from ..common.base import TableAdmin


class PresenceFilter(admin.SimpleListFilter):
    """Whether the worker was seen lately."""

    title = gettext_lazy("state")
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, Any]]:
        return (("here", _("Seen in the last minute")), ("silent", _("Silent")))

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        here = Q(last_seen__gte=clock.now(queryset.db) - PRESENT_FOR)
        conditions = {"here": here, "silent": ~here}
        condition = conditions.get(self.value() or "")
        return queryset if condition is None else queryset.filter(condition)


class TypeFilter(text_filters.TextFilter):
    """Filter by the type of jobs that the worker asks for."""

    title = gettext_lazy("type")
    parameter_name = "handler"
    column = "type"


class ProtocolFilter(text_filters.TextFilter):
    """Filter by protocol."""

    title = gettext_lazy("protocol")
    parameter_name = "protocol"
    column = "protocol"


@admin.register(ExternalWorker)
class ExternalWorkerAdmin(TableAdmin):
    """Workers and the time of their last request. A row is a worker, a job type and a process of a gateway."""

    list_display = ("name", "kind", "state", "asks", "held", "given", "seen", "where")
    list_filter = (PresenceFilter, ProtocolFilter, TypeFilter)
    search_fields = ("worker__startswith", "type__startswith", "client__startswith")
    search_help_text = gettext_lazy("The beginning of a worker's name, of a type or of a client's name.")
    sortable_by = ("seen",)
    ordering = ("-last_seen", "-id")
    deferred = ("open_streams", "tenants")
    readonly_fields = ("state", "kind", "held", "given", "seen", "first", "where", "shown_tenants", "shown_streams")
    fieldsets = (
        (None, {"fields": ("worker", "client", "kind", "state", "seen", "first")}),
        (gettext_lazy("Work"), {"fields": ("held", "given", "polls", "streams", "shown_tenants")}),
        (gettext_lazy("Gateway"), {"fields": ("where", "protocol", "shown_streams")}),
    )

    def complete(self, rows: Sequence[ExternalWorker]) -> None:
        """Count the jobs that the workers hold, in one statement for all."""
        if not rows:
            return
        held = jobs_held(rows[0]._state.db or "default", {(row.worker, row.type) for row in rows})
        for row in rows:
            row.held = held[row.worker, row.type]  # type: ignore[attr-defined]

    @admin.display(description=gettext_lazy("worker, client"))
    def name(self, row: ExternalWorker) -> SafeString:
        client = row.client or _("unnamed client")
        quiet = format_html('<span class="jobexec-quiet">{}</span>', client)
        return format_html("{}<br>{}", row.worker or _("unnamed worker"), quiet)

    @admin.display(description=gettext_lazy("type"))
    def kind(self, row: ExternalWorker) -> SafeString:
        return display.handler(row.type)

    @admin.display(description=gettext_lazy("state"))
    def state(self, row: ExternalWorker) -> SafeString:
        now = display.now(row)
        if row.last_seen >= now - PRESENT_FOR:
            if row.streams or row.polls:
                return display.badge("ok", pgettext("state of a worker", "waiting"))
            return display.badge("ok", pgettext("state of a worker", "present"))
        silent = now - row.last_seen
        kind = "warn" if silent < get_settings().external_worker_alert_after else "off"
        return display.badge(kind, _("silent for %s") % display.duration(silent.total_seconds()))

    @admin.display(description=gettext_lazy("streams, waiting polls"))
    def asks(self, row: ExternalWorker) -> SafeString:
        streams, polls = (row.streams, row.polls) if self._is_here(row) else (0, 0)
        return format_html("{} / {}", streams, polls)

    @admin.display(description=gettext_lazy("jobs held"))
    def held(self, row: ExternalWorker) -> SafeString:
        """Jobs held by all workers of this name, on any gateway."""
        query = {"lock": "held", "worker": row.worker, "handler": row.type}
        return display.link(self.list_url(ExternalWorkerJob), getattr(row, "held", 0), **query)

    @admin.display(description=gettext_lazy("jobs activated"))
    def given(self, row: ExternalWorker) -> str:
        return number_format(row.activated, force_grouping=True)

    @admin.display(description=gettext_lazy("last seen"), ordering="last_seen")
    def seen(self, row: ExternalWorker) -> str | SafeString:
        return display.relative(row.last_seen, display.now(row))

    @admin.display(description=gettext_lazy("first seen"))
    def first(self, row: ExternalWorker) -> str | SafeString:
        return display.exact(row.first_seen, display.now(row))

    @admin.display(description=gettext_lazy("gateway"))
    def where(self, row: ExternalWorker) -> SafeString:
        return format_html('{}<br><span class="jobexec-quiet">{}</span>', row.gateway, row.protocol)

    @admin.display(description=gettext_lazy("tenants"))
    def shown_tenants(self, row: ExternalWorker) -> str:
        return ", ".join(str(tenant) or _("none") for tenant in row.tenants) or _("all that the client may see")

    @admin.display(description=gettext_lazy("open streams"))
    def shown_streams(self, row: ExternalWorker) -> str | SafeString:
        if not row.open_streams or not self._is_here(row):
            return display.NONE
        return format_html_join("", "{}<br>", ((_stream(each),) for each in row.open_streams))

    def _is_here(self, row: ExternalWorker) -> bool:
        now: datetime = display.now(row)
        return bool(row.last_seen >= now - PRESENT_FOR)


def _stream(said: dict[str, Any]) -> str:
    variables = ", ".join(said.get("fetchVariables") or ()) or _("all variables")
    return f"{said.get('id', '')} · {said.get('timeout') or display.NONE} · {variables}"
