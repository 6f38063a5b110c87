"""Process instances."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from django.contrib import admin
from django.contrib.admin import AdminSite
from django.db.models import Count, QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from jobexec.admin.common import display
from jobexec.admin.common.instance_pages import INSTANCE_PAGES
from jobexec.admin.common.page_links import instance_url
from jobexec.identifiers import as_id
from jobexec.models import DeadLetterJob

from ..engine.rows import NOT_WAITING
from ..models import Execution, InstanceState, ProcessDefinition, ProcessInstance
from ..models.instance import RUNNING
from ..operations.query import view_of
from ..picture.instance import overlay
from ..picture.overlay import Overlay
from ..store.suspensions import suspended
from .common import DrawnAdmin, process_of, state_badge, suspended_beside, version_of
from .filters import (
    BusinessKeyFilter,
    ElementFilter,
    IncidentFilter,
    ProcessFilter,
    SuspendedFilter,
    VariableFilter,
    VersionFilter,
)
from .instance_actions import Cancel, Modify, Restart, Retry, SetVariable
from .instance_page import InstancePage
from .suspending import Activate, Suspend

#: Elements that the list names for each instance.
_PLACES = 3


@admin.register(ProcessInstance)
class ProcessInstanceAdmin(DrawnAdmin):
    """Instances that run, and those that have ended, the latest first."""

    list_display = (
        "state_badge", "process", "version", "business_key", "waits_at", "incidents", "started", "ended", "tenant_id",
    )  # fmt: skip
    list_display_links = ("state_badge", "process")
    list_filter = (
        "state", SuspendedFilter, IncidentFilter, ProcessFilter, VersionFilter, BusinessKeyFilter, ElementFilter,
        VariableFilter,
    )  # fmt: skip
    search_fields = ("business_key",)
    search_help_text = gettext_lazy("The beginning of the business key, the key of the process, or the id.")
    sortable_by = ("started",)
    ordering = ("-id",)  # in the order of time; no index is by the start of all instances
    deferred = ("final_variables",)
    actions = (Cancel(), Modify(), Restart(), Suspend(), Activate(), Retry(), SetVariable())
    change_form_template = "admin/jobexec_processes/instance_page.html"
    readonly_fields = ("state_badge", "definition", "started_exactly", "ended_exactly", "took")

    def has_cancel_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("jobexec_processes.cancel_processinstance")

    def has_retry_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("jobexec.requeue_deadletterjob")

    def has_variables_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("jobexec_processes.change_variables")

    def has_modify_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("jobexec_processes.modify_processinstance")

    def has_restart_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("jobexec_processes.restart_processinstance")

    def has_suspend_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("jobexec_processes.suspend_processinstance")

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        optional = [name for name in ("start_user", "tenant_id") if obj is None or getattr(obj, name)]
        fields: list[Any] = [
            ("state_badge", "definition", "business_key", *optional),
            ("started_exactly", "ended_exactly", "took")
            if obj is None or obj.end_time
            else ("started_exactly", "took"),
            "id",
        ]
        return [(None, {"fields": [*fields, *(("delete_reason",) if obj is None or obj.delete_reason else ())]})]

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        term = search_term.strip()
        if not term:
            return queryset, False
        if id := as_id(term):
            return queryset.filter(pk=id), False
        of_process = queryset.filter(definition_key=term)
        found = of_process if of_process.order_by().exists() else queryset.filter(business_key__startswith=term)
        return found, False

    # The list.

    def complete(self, rows: Sequence[ProcessInstance]) -> None:
        """Load the positions and incidents of all rows at once."""
        running = [row for row in rows if row.state in RUNNING]
        if not running:
            return
        using = running[0]._state.db or "default"
        tokens = Execution.objects.using(using).filter(
            root_id__in={row.root_id for row in running}, instance_id__in=[row.pk for row in running]
        )
        tokens = tokens.exclude(state__in=NOT_WAITING).order_by()
        places: dict[Any, Counter[str]] = {}
        for instance, element, count in tokens.values_list("instance_id", "element_id").annotate(Count("pk")):
            places.setdefault(instance, Counter())[element] += count
        dead = DeadLetterJob.objects.using(using).filter(process_instance_id__in=[str(row.pk) for row in running])
        incidents = dict(dead.order_by().values_list("process_instance_id").annotate(Count("pk")))
        held = suspended(using, running)
        for row in running:
            row.is_suspended = row.pk in held  # type: ignore[attr-defined]
            row.places = places.get(row.pk, Counter())  # type: ignore[attr-defined]
            row.incident_count = incidents.get(str(row.pk), 0)  # type: ignore[attr-defined]

    @admin.display(description=gettext_lazy("state"))
    def state_badge(self, row: ProcessInstance) -> SafeString:
        return suspended_beside(state_badge(row.state, InstanceState(row.state).label), row)

    @admin.display(description=gettext_lazy("process"))
    def process(self, row: ProcessInstance) -> str:
        return row.definition_key

    @admin.display(description=gettext_lazy("version"))
    def version(self, row: ProcessInstance) -> str:
        return version_of(row.definition_id) or display.NONE

    @admin.display(description=gettext_lazy("waits at"))
    def waits_at(self, row: ProcessInstance) -> str:
        places: Counter[str] = getattr(row, "places", None) or Counter()
        told = [f"{element} ({count})" if count > 1 else element for element, count in places.most_common(_PLACES)]
        return ", ".join([*told, *(["…"] if len(places) > _PLACES else [])]) or display.NONE

    @admin.display(description=gettext_lazy("incidents"))
    def incidents(self, row: ProcessInstance) -> str | SafeString:
        count = getattr(row, "incident_count", 0)
        return display.badge("bad", count) if count else display.NONE

    @admin.display(description=gettext_lazy("started"), ordering="id")
    def started(self, row: ProcessInstance) -> str | SafeString:
        return display.relative(row.start_time, display.now(row))

    @admin.display(description=gettext_lazy("ended"))
    def ended(self, row: ProcessInstance) -> str | SafeString:
        return display.relative(row.end_time, display.now(row))

    # The page of one.

    @admin.display(description=gettext_lazy("process"))
    def definition(self, row: ProcessInstance) -> SafeString:
        version = version_of(row.definition_id)
        text = _("%(key)s, version %(version)s") % {"key": row.definition_key, "version": version}
        shown = text if version else row.definition_key
        page: Any = self.admin_site._registry.get(ProcessDefinition)
        return format_html("{}", shown) if page is None else display.link(page.page_url(row.definition_id), shown)

    @admin.display(description=gettext_lazy("started"))
    def started_exactly(self, row: ProcessInstance) -> str | SafeString:
        return display.exact(row.start_time, display.now(row))

    @admin.display(description=gettext_lazy("ended"))
    def ended_exactly(self, row: ProcessInstance) -> str | SafeString:
        return display.exact(row.end_time, display.now(row))

    @admin.display(description=gettext_lazy("took"))
    def took(self, row: ProcessInstance) -> str:
        return display.duration(((row.end_time or display.now(row)) - row.start_time).total_seconds())

    def resource_of(self, row: Any) -> Any:
        definitions = ProcessDefinition.objects.using(row._state.db).filter(pk=row.definition_id)
        return definitions.values_list("resource_id", flat=True).first()

    def overlay_of(self, request: HttpRequest, row: Any) -> Overlay:
        using = row._state.db or "default"
        return overlay(view_of(using, row.pk), process_of(using, row.definition_id))

    def page_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        using = row._state.db or "default"
        view, process = view_of(using, row.pk), process_of(using, row.definition_id)
        drawn = self.drawn(request, row, process, overlay(view, process)) if process is not None else {}
        url = instance_url(self.admin_site.name, str(row.pk))
        related = [display.link(url, _("Its jobs, their runs and their log"))] if url else []
        return {**InstancePage(self, request, view, process).context(), **drawn, "related": related}


def _instance_page(request: HttpRequest, site: AdminSite, instance: str, using: str) -> SafeString | None:
    """The link on the pages of an instance's jobs."""
    page, id = site._registry.get(ProcessInstance), as_id(instance)
    if id is None or not isinstance(page, ProcessInstanceAdmin) or not page.has_view_permission(request):
        return None
    row = page.get_queryset(request).using(using).filter(pk=id).only("definition_key", "business_key").first()
    return None if row is None else display.link(page.page_url(id), _("The process instance %s") % row)


INSTANCE_PAGES.append(_instance_page)
