"""Process definitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.contrib import admin
from django.contrib.admin.utils import quote
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import path, reverse
from django.utils.html import format_html
from django.utils.http import content_disposition_header
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext_lazy

from jobexec.admin.common import display
from jobexec.admin.common.actions import Outcome
from jobexec.admin.common.filters import YesNoFilter

from ..definition import Process
from ..models import ProcessDefinition, ProcessInstance, ProcessResource
from ..models.instance import RUNNING
from ..operations import statistics
from ..operations.start import start_definition, start_form
from ..operations.statistics import NEVER, Runs
from ..picture.overlay import HOTTEST, Overlay, Standing, standing
from ..store import definitions
from ..store.suspensions import suspended_definitions
from .common import DrawnAdmin, ProcessAction, named, suspended_beside
from .forms import StartForm
from .instance_actions import to_started
from .suspending import ActivateDefinition, SuspendDefinition
from .task_form import form_of, shown_form

_VERSIONS = 50


class Start(ProcessAction):
    """Start an instance of this version."""

    name = permission = "start"
    description = gettext_lazy("Start an instance of selected %(verbose_name_plural)s…")
    label = gettext_lazy("Start an instance…")
    form_class = StartForm
    report = ngettext_lazy(
        "%(count)d process instance was started.",
        "%(count)d process instances were started.",
        "count",
    )

    def form_for(self, queryset: QuerySet[Any]) -> type[forms.Form] | None:
        """The form of the start event, if it is one definition."""
        ids = list(queryset.exclude(version=None).values_list("pk", flat=True)[:2])
        return form_of(start_form(queryset.db, ids[0]).fields or [], StartForm) if len(ids) == 1 else self.form_class

    def perform_for(
        self, request: HttpRequest, queryset: QuerySet[Any], using: str, data: Mapping[str, Any]
    ) -> Outcome:
        return self.perform(queryset, using, {**data, "request": request})

    def operate(self, key: Any, using: str, data: Mapping[str, Any]) -> str | None:
        row, user = ProcessDefinition.objects.using(using).get(pk=key), data["request"].user
        if refusal := _refusal(definitions.process(using, key), user):
            return refusal
        found = start_definition(
            using, row, business_key=data["business_key"], variables=data["variables"], user=user.get_username()
        )
        data["request"].jobexec_started = found.pk
        return None

    def perform(self, queryset: QuerySet[Any], using: str, data: Mapping[str, Any]) -> Outcome:
        flows = queryset.filter(version=None).values_list("pk", flat=True)
        reason = _("it is the shape of a flow, which is started in Python")
        outcome = super().perform(queryset.exclude(version=None), using, data)
        outcome.skipped |= dict.fromkeys(flows, reason)
        return outcome

    def respond(self, modeladmin: Any, request: HttpRequest) -> HttpResponse | None:
        return to_started(modeladmin, request) or super().respond(modeladmin, request)


def _refusal(process: Process, user: Any) -> str | None:
    """Why a user who may start instances may not start one of this process."""
    if not process.startable:
        return _("its file says that it is not started by users")
    users, groups = process.starter_users, process.starter_groups
    if not (users or groups) or user.is_superuser or user.get_username() in users:
        return None
    return None if user.groups.filter(name__in=groups).exists() else _("only its candidate starters may start it")


class OriginFilter(YesNoFilter):
    """Files or flows: each shape of a flow is a row, too."""

    title = gettext_lazy("origin")
    parameter_name = "origin"
    choice_labels = (("file", gettext_lazy("BPMN files")), ("flow", gettext_lazy("Flows")))
    conditions = {"file": {"version__isnull": False}, "flow": {"version": None}}


@admin.register(ProcessDefinition)
class ProcessDefinitionAdmin(DrawnAdmin):
    """Deployed processes in all of their versions, and the shapes of flows."""

    list_display = ("key", "version_shown", "name", "running", "incidents", "deployed", "tenant_id")
    list_display_links = ("key",)
    list_filter = (OriginFilter,)
    search_fields = ("key__startswith",)
    search_help_text = gettext_lazy("The beginning of the key.")
    sortable_by = ("key",)
    ordering = ("key", "tenant_id", "-version")
    deferred = ("model",)
    actions = (Start(), SuspendDefinition(), ActivateDefinition())
    change_form_template = "admin/jobexec_processes/definition_page.html"
    readonly_fields = ("version_shown", "running", "deployed", "form_shown")
    fieldsets = (
        (
            None,
            {
                "fields": (
                    ("key", "version_shown", "version_tag"),
                    ("name", "tenant_id", "id"),
                    ("running", "deployed", "form_shown"),
                )
            },
        ),
    )

    def has_start_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("jobexec_processes.start_processinstance")

    def has_suspend_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("jobexec_processes.suspend_processdefinition")

    def get_urls(self) -> list[Any]:
        view = self.admin_site.admin_view(self.xml_view)
        name = f"{self.opts.app_label}_{self.opts.model_name}_xml"
        return [path("<path:object_id>/xml/", view, name=name), *super().get_urls()]

    def xml_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """The file, as it was deployed."""
        row = self.visible(request, object_id)
        resource = ProcessResource.objects.using(row._state.db).filter(pk=row.resource_id).first()
        if resource is None:
            raise Http404
        name = resource.name.rpartition("/")[2]
        headers = {"Content-Disposition": content_disposition_header(True, name) or "attachment"}
        return HttpResponse(resource.text, content_type="application/xml; charset=utf-8", headers=headers)

    def complete(self, rows: Sequence[ProcessDefinition]) -> None:
        """Count the running instances and the incidents of all rows at once."""
        if not rows:
            return
        using, keys = rows[0]._state.db or "default", [row.pk for row in rows]
        counts = statistics.of_definitions(using, keys)
        held = suspended_definitions(using, rows)
        for row in rows:
            row.is_suspended = row.pk in held  # type: ignore[attr-defined]
            row.running_count, row.incident_count = counts[row.pk]  # type: ignore[attr-defined]

    def resource_of(self, row: Any) -> Any:
        return row.resource_id

    def overlay_of(self, request: HttpRequest, row: Any) -> Overlay:
        using = row._state.db or "default"
        if _shows_runs(request):
            return _heat(statistics.runs(using, row.pk))
        return _standing(statistics.tokens(using, row.pk), statistics.incidents(using, row.pk))

    def page_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        using = row._state.db or "default"
        process = definitions.process(using, row.pk)
        resource = ProcessResource.objects.using(using).filter(pk=row.resource_id).defer("text").first()
        xml_url = reverse(
            f"admin:{self.opts.app_label}_{self.opts.model_name}_xml",
            args=[quote(row.pk)],
            current_app=self.admin_site.name,
        )
        may_start = row.version and _refusal(process, request.user) is None
        actions = [action for action in self.permitted_actions(request) if may_start or action.name != "start"]
        return {
            "shows_runs": _shows_runs(request),
            "elements": self._elements(request, row, process),
            "versions": self._versions(row),
            "resource": resource,
            "xml_url": xml_url,
            "row_actions": actions,
            **self.drawn(request, row, process, self.overlay_of(request, row)),
        }

    def _elements(self, request: HttpRequest, row: ProcessDefinition, process: Process) -> list[dict[str, Any]]:
        """Each element with its figures, in the order of the file."""
        using = row._state.db or "default"
        tokens, incidents = statistics.tokens(using, row.pk), statistics.incidents(using, row.pk)
        runs = statistics.runs(using, row.pk) if _shows_runs(request) else {}
        instances = self.table(ProcessInstance, request)
        found = []
        for node in process.nodes:
            count: Any = tokens.get(node.id, 0)
            if instances is not None and count:
                count = display.link(self.list_url(ProcessInstance), count, definition_id=row.pk, element=node.id)
            ran = runs.get(node.id, NEVER)
            found.append(
                {
                    "name": named(process, node.id),
                    "id": node.id,
                    "kind": node.kind,
                    "tokens": count,
                    "incidents": incidents.get(node.id, 0),
                    "runs": ran.count,
                    "median": display.duration(ran.median) if node.is_activity else display.NONE,
                }
            )
        return found

    def _versions(self, row: ProcessDefinition) -> list[dict[str, Any]]:
        """The latest versions of the same process."""
        if row.version is None:
            return []
        using = row._state.db or "default"
        others = ProcessDefinition.objects.using(using).filter(
            key=row.key, tenant_id=row.tenant_id, version__isnull=False
        )
        rows = list(others.order_by("-version").defer("model")[:_VERSIONS])
        self.complete([each for each in rows if each.pk != row.pk])
        rows = [row if each.pk == row.pk else each for each in rows]  # which is complete
        return [
            {
                "version": each.version,
                "url": self.page_url(each.pk) if each.pk != row.pk else "",
                "tag": each.version_tag,
                "deployed": self.deployed(each),
                "running": self.running(each),
                "incidents": self.incidents(each),
            }
            for each in rows
        ]

    @admin.display(description=gettext_lazy("version"))
    def version_shown(self, row: ProcessDefinition) -> str | SafeString:
        shown = str(row.version) if row.version else format_html('<span class="jobexec-quiet">{}</span>', _FLOW)
        return suspended_beside(shown, row)

    @admin.display(description=gettext_lazy("start form"))
    def form_shown(self, row: ProcessDefinition) -> str | SafeString:
        """The URL of a project's own view takes the definition's id."""
        form = start_form(row._state.db or "default", row.pk)
        return shown_form(form.fields or [], form.form_key or "", row.pk)

    @admin.display(description=gettext_lazy("running instances"))
    def running(self, row: ProcessDefinition) -> str | SafeString:
        count = getattr(row, "running_count", 0)
        return display.link(self.list_url(ProcessInstance), count, definition_id=row.pk, state__in=",".join(RUNNING))

    @admin.display(description=gettext_lazy("incidents"))
    def incidents(self, row: ProcessDefinition) -> str | SafeString:
        count = getattr(row, "incident_count", 0)
        return display.badge("bad", count) if count else display.NONE

    @admin.display(description=gettext_lazy("deployed"))
    def deployed(self, row: ProcessDefinition) -> str | SafeString:
        return display.relative(row.deploy_time, display.now(row))


_FLOW = gettext_lazy("a flow")


def _shows_runs(request: HttpRequest) -> bool:
    return request.GET.get("show") == "runs"


def _standing(tokens: Mapping[str, int], incidents: Mapping[str, int]) -> Overlay:
    return Overlay({id: standing(tokens.get(id, 0), incidents.get(id, 0)) for id in {*tokens, *incidents}})


def _heat(runs: Mapping[str, Runs]) -> Overlay:
    """The most frequent element is the hottest; the levels are of the same number of runs."""
    most = max((each.count for each in runs.values()), default=1)
    return Overlay(
        {
            id: Standing(
                runs=each.count,
                heat=-(-each.count * HOTTEST // most),
                told=_("%(count)d runs, median %(median)s")
                % {"count": each.count, "median": display.duration(each.median)},
            )
            for id, each in runs.items()
        }
    )
