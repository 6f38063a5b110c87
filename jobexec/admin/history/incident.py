"""Incidents: problems that need an operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext_lazy

from jobexec import operations
from jobexec.models import FailureGroup, Incident, IncidentState, Resource

from ..common import display, filters, search, text_filters
from ..common.actions import Action, Outcome, RowAction
from ..common.batching import MOST_BY_PAGES
from ..common.forms import AnnotationForm, RetriesForm
from ..common.incident_columns import incident_badge
from ..common.job_columns import visible_calls
from ..common.page_links import instance_link
from ..common.permissions import OperationPermissions
from ..common.tenancy import COLUMN


class Annotate(RowAction):
    """Write a note to incidents."""

    name, permission = "annotate", "annotate"
    description = gettext_lazy("Annotate selected %(verbose_name_plural)s…")
    label = gettext_lazy("Annotate…")
    form_class = AnnotationForm
    name_column = "handler_type"
    report = ngettext_lazy("%(count)d incident annotated.", "%(count)d incidents annotated.", "count")

    def initial(self, queryset: QuerySet[Any]) -> dict[str, Any]:
        texts = list(queryset.order_by().values_list("annotation", flat=True)[:2])
        return {"annotation": texts[0]} if len(texts) == 1 else {}

    def operate(self, key: UUID, using: str, data: Mapping[str, Any]) -> None:
        operations.annotate_incident(key, data["annotation"], using=using)


class RequeueJob(Action):
    """Give the jobs of incidents new attempts, which resolves the incidents."""

    name, permission = "requeue", "requeue"
    description = gettext_lazy("Requeue the jobs of selected %(verbose_name_plural)s…")
    label = gettext_lazy("Requeue its job…")
    form_class = RetriesForm
    name_column = "handler_type"
    most = MOST_BY_PAGES
    report = ngettext_lazy(
        "%(count)d job requeued with %(retries)d retries.",
        "%(count)d jobs requeued with %(retries)d retries.",
        "count",
    )

    def applies(self, row: Incident) -> bool:
        return row.state == IncidentState.OPEN and row.job_id is not None

    def perform(self, queryset: QuerySet[Any], using: str, data: Mapping[str, Any]) -> Outcome:
        jobs = dict(queryset.filter(job_id__isnull=False).order_by().values_list("job_id", "pk"))
        result = operations.requeue(list(jobs), data["retries"], using=using)
        skipped = {jobs[job]: reason for job, reason in result.skipped.items()}
        breakers = queryset.filter(job_id=None).values_list("pk", flat=True)
        skipped |= dict.fromkeys(breakers, _("it belongs to a circuit breaker and ends when the breaker closes"))
        return Outcome([jobs[job] for job in result.changed], skipped)


@admin.register(Incident)
class IncidentAdmin(OperationPermissions, search.IndexedSearch):
    """Incidents, the latest first; without a filter only open ones."""

    list_display = ("state_badge", "handler", "job_link", "instance", "since", "note")
    list_display_links = ("handler",)
    list_filter = (
        filters.IncidentStateFilter,
        filters.TIMESTAMP,
        filters.CategoryFilter,
        filters.HandlerFilter,
        text_filters.TenantFilter,
        text_filters.DefinitionKeyFilter,
        text_filters.FingerprintFilter,
    )
    tenant_column = COLUMN
    sortable_by = ()
    search_fields = ("job_id",)
    search_help_text = search.LOG_HELP
    id_column = "job_id"
    actions = (RequeueJob(), Annotate())
    readonly_fields = ("state_badge", "job_link", "began", "ended", "message_text", "note", "alike")
    fieldsets = (
        (None, {"fields": (("state_badge", "began", "ended"), "handler_type", "job_link", "process_instance_id")}),
        (gettext_lazy("Message"), {"fields": ("message_text", "alike")}),
        (gettext_lazy("Annotation"), {"fields": ("note",)}),
        (
            gettext_lazy("Origin"),
            {
                "fields": (
                    ("type", "category", "tenant_id"),
                    ("job_definition_id", "deployment_id", "process_definition_key"),
                    ("failed_activity_id", "fingerprint"),
                    ("id", "incident_key"),
                )
            },
        ),
    )

    def get_ordering(self, request: HttpRequest) -> tuple[str, ...]:
        # The index is by state and time. Over all states, ids are ordered by time.
        if request.GET.get("state__exact") == filters.IncidentStateFilter.ALL:
            return ("-id",)
        return ("-timestamp", "-id")

    def complete_shown(self, request: HttpRequest, rows: Sequence[Any]) -> None:
        super().complete_shown(request, rows)
        ids = {row.job_id for row in rows if row.job_id is not None}
        calls = visible_calls(request, self.admin_site, ids, rows[0]._state.db or "default") if ids else {}
        for row in rows:
            row.call = calls.get(row.job_id, "")

    @admin.display(description=gettext_lazy("state"))
    def state_badge(self, incident: Incident) -> SafeString:
        return incident_badge(incident)

    @admin.display(description=gettext_lazy("handler"))
    def handler(self, incident: Incident) -> SafeString:
        handler = "" if incident.resource else incident.handler_type
        text = incident.resource or vars(incident).get("call", "")
        return display.call(handler, text, incident.tenant_id, incident.message)

    @admin.display(description=gettext_lazy("job"))
    def job_link(self, incident: Incident) -> SafeString:
        if incident.job_id is not None:
            return display.job_link(incident.job_id, self.admin_site.name)
        resources: Any = self.admin_site._registry.get(Resource)
        if incident.resource is None or resources is None:
            return format_html("{}", display.NONE)
        return display.link(resources.page_url(incident.resource), _("resource"))

    @admin.display(description=gettext_lazy("process instance"), empty_value=display.NONE)
    def instance(self, incident: Incident) -> SafeString | str | None:
        return instance_link(self.admin_site.name, incident.process_instance_id, incident.tenant_id)

    @admin.display(description=gettext_lazy("since"))
    def since(self, incident: Incident) -> str | SafeString:
        return display.relative(incident.timestamp, display.now(incident))

    @admin.display(description=gettext_lazy("since"))
    def began(self, incident: Incident) -> str | SafeString:
        return display.exact(incident.timestamp, display.now(incident))

    @admin.display(description=gettext_lazy("until"))
    def ended(self, incident: Incident) -> str | SafeString:
        return display.exact(incident.end_time, display.now(incident))

    @admin.display(description=gettext_lazy("message"))
    def message_text(self, incident: Incident) -> str | SafeString:
        return display.pre(incident.message)

    @admin.display(description=gettext_lazy("annotation"))
    def note(self, incident: Incident) -> str | SafeString:
        return incident.annotation or display.NONE

    @admin.display(description=gettext_lazy("group of failures"))
    def alike(self, incident: Incident) -> str | SafeString:
        groups: Any = self.admin_site._registry.get(FailureGroup)
        if not incident.fingerprint or groups is None:
            return display.NONE
        return display.link(groups.page_url(incident.fingerprint), _("Group of failures"))
