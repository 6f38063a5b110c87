"""Parts shared by the admin pages of processes."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib.admin.utils import quote, unquote
from django.core.exceptions import PermissionDenied
from django.db.models import Model, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.urls import path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from jobexec.admin.common import display
from jobexec.admin.common.actions import RowAction
from jobexec.admin.common.base import TableAdmin
from jobexec.exceptions import JobExecError
from jobexec.processes.engine.exceptions import StepError

from ..definition import Process
from ..models import ProcessDefinition, ProcessResource
from ..picture.overlay import Overlay
from ..picture.svg import picture
from ..store import definitions

KINDS = {"active": "ok", "compensating": "warn", "completed": "quiet", "terminated": "quiet", "cancelled": "warn"}
#: What a file contains that has a diagram.
_DRAWN = ":BPMNShape "


class ProcessTableAdmin(TableAdmin):
    """A read-only table of processes."""

    tenant_column = "tenant_id"

    class Media:
        css: ClassVar = {"all": ["jobexec/admin.css", "jobexec_processes/processes.css"]}

    def has_view_permission(self, request: Any, obj: Any = None) -> bool:
        name = f"{self.opts.app_label}.view_{self.opts.model_name}"
        return super().has_view_permission(request, obj) and request.user.has_perm(name)

    def table(self, model: type[Model], request: HttpRequest) -> TableAdmin | None:
        """The admin of another table, if the user may view it."""
        found = self.admin_site._registry.get(model)
        return found if isinstance(found, TableAdmin) and found.has_view_permission(request) else None


class DrawnAdmin(ProcessTableAdmin):
    """Pages with the picture of a process, and with the diagram of its file if that has one."""

    def get_urls(self) -> list[Any]:
        view = self.admin_site.admin_view(self.diagram_view)
        name = f"{self.opts.app_label}_{self.opts.model_name}_diagram"
        return [path("<path:object_id>/diagram/", view, name=name), *super().get_urls()]

    def resource_of(self, row: Any) -> Any:
        """The id of the file of this row's definition."""
        raise NotImplementedError

    def overlay_of(self, request: HttpRequest, row: Any) -> Overlay:
        """The overlay of the diagram."""
        raise NotImplementedError

    def diagram_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """The diagram of the file and its overlay, as JSON for the script."""
        row = self.visible(request, object_id)
        if self.table(ProcessDefinition, request) is None:
            raise PermissionDenied  # it is the whole file
        text = _resources(row).filter(pk=self.resource_of(row)).values_list("text", flat=True).first()
        if text is None:
            raise Http404
        return JsonResponse({"xml": text, **self.overlay_of(request, row).as_json()})

    def visible(self, request: HttpRequest, object_id: str) -> Any:
        """The row, if the user may see it. Raises Http404."""
        row = self.get_object(request, unquote(object_id)) if self.has_view_permission(request) else None
        if row is None:
            raise Http404
        return row

    def drawn(self, request: HttpRequest, row: Any, process: Process, overlay: Overlay) -> dict[str, Any]:
        """The picture for the template, and the URL of the diagram for the script."""
        context: dict[str, Any] = {"picture": picture(process, overlay)}
        if self.table(ProcessDefinition, request) is None:
            return context
        if _resources(row).filter(pk=self.resource_of(row), text__contains=_DRAWN).exists():
            name = f"admin:{self.opts.app_label}_{self.opts.model_name}_diagram"
            url = reverse(name, args=[quote(row.pk)], current_app=self.admin_site.name)
            context["diagram_url"] = url + (f"?{query}" if (query := request.GET.urlencode()) else "")
        return context


def _resources(row: Model) -> QuerySet[ProcessResource]:
    return ProcessResource.objects.using(row._state.db or "default")


def process_of(using: str, definition: str) -> Process | None:
    """The definition with this id; None if it was deleted."""
    try:
        return definitions.process(using, definition)
    except ProcessDefinition.DoesNotExist:
        return None


class ProcessAction(RowAction):
    """An operation on rows of processes, which the engine may refuse."""

    refusals = (JobExecError, StepError)


def state_badge(state: str, label: Any) -> SafeString:
    return display.badge(KINDS.get(state, "quiet"), label)


def suspended_beside(shown: Any, row: Any) -> SafeString:
    """The displayed value of a row, with a badge if it is suspended."""
    if not getattr(row, "is_suspended", False):
        return format_html("{}", shown)
    return format_html("{} {}", shown, display.badge("off", _("suspended")))


def version_of(definition: str) -> str:
    """The version in the id of a definition; empty for a flow."""
    version = definition.rsplit(":", 2)[-2] if definition.count(":") >= 2 else ""
    return version if version.isdigit() else ""


def named(process: Process | None, element: str) -> str:
    """The name of an element, otherwise its id."""
    node = process.find(element) if process else None
    return (node.name if node else None) or element


def element_shown(process: Process | None, element: str) -> SafeString:
    """The name of an element, and its id if that is another text."""
    name = named(process, element)
    if name == element:
        return format_html("{}", element)
    return format_html('{} <span class="jobexec-quiet">{}</span>', name, element)
