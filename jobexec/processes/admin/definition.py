"""Process definitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from django.contrib import admin
from django.db.models import Count
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy

from jobexec.admin.common import display
from jobexec.models import DeadLetterJob

from ..engine.rows import State
from ..models import Execution, ProcessDefinition, ProcessInstance, ProcessResource
from ..models.instance import RUNNING
from ..picture.svg import Standing, picture
from ..store import definitions
from .common import ProcessTableAdmin

#: Executions that are counted for the picture.
_MOST = 100_000


@admin.register(ProcessDefinition)
class ProcessDefinitionAdmin(ProcessTableAdmin):
    """Deployed processes in all of their versions, and the shapes of flows."""

    list_display = ("key", "version_shown", "name", "tenant_id", "running", "deployed")
    list_display_links = ("key",)
    search_fields = ("key__startswith",)
    search_help_text = gettext_lazy("The beginning of the key.")
    sortable_by = ("key",)
    ordering = ("key", "tenant_id", "-version")
    deferred = ("model",)
    change_form_template = "admin/jobexec_processes/definition_page.html"
    readonly_fields = ("version_shown", "running", "deployed")
    fieldsets = (
        (None, {"fields": (("key", "version_shown", "version_tag"), ("name", "tenant_id"), ("running", "deployed"))}),
    )

    def complete(self, rows: Sequence[ProcessDefinition]) -> None:
        """Count the running instances of all rows at once."""
        if not rows:
            return
        running = ProcessInstance.objects.using(rows[0]._state.db or "default").filter(
            definition_id__in=[row.pk for row in rows], state__in=RUNNING
        )
        counts = dict(running.order_by().values_list("definition_id").annotate(Count("pk")))
        for row in rows:
            row.running_count = counts.get(row.pk, 0)  # type: ignore[attr-defined]

    def page_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        using = row._state.db or "default"
        resource = ProcessResource.objects.using(using).filter(pk=row.resource_id).first()
        return {
            "picture": picture(definitions.process(using, row.pk), _standing(using, row)),
            "resource": resource,
        }

    @admin.display(description=gettext_lazy("version"))
    def version_shown(self, row: ProcessDefinition) -> str | SafeString:
        return str(row.version) if row.version else format_html('<span class="jobexec-quiet">{}</span>', _FLOW)

    @admin.display(description=gettext_lazy("running instances"))
    def running(self, row: ProcessDefinition) -> str | SafeString:
        count = getattr(row, "running_count", 0)
        return display.link(self.list_url(ProcessInstance), count, definition_id=row.pk, state="active")

    @admin.display(description=gettext_lazy("deployed"))
    def deployed(self, row: ProcessDefinition) -> str | SafeString:
        return display.relative(row.deploy_time, display.now(row))


_FLOW = gettext_lazy("a flow")


def _standing(using: str, row: ProcessDefinition) -> dict[str, Standing]:
    """Where the instances of a version stand."""
    tokens = Execution.objects.using(using).filter(definition_id=row.pk).exclude(state=State.COMPENSABLE.value)
    waiting = Counter(tokens.order_by().values_list("element_id", flat=True)[:_MOST])
    dead = DeadLetterJob.objects.using(using).filter(process_definition_id=row.pk).order_by()
    incidents = Counter(dead.values_list("failed_activity_id", flat=True)[:_MOST])
    return {id: Standing(waiting[id], incidents[id]) for id in {*waiting, *incidents}}
