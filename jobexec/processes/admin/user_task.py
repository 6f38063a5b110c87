"""Tasks of people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy, ngettext

from jobexec.admin.common import display
from jobexec.admin.common.actions import Outcome

from ..models import ProcessInstance, TaskCandidate, UserTask
from ..operations.user_tasks import claim, complete, release
from .common import ProcessTableAdmin, RowAction
from .forms import VariablesForm


class Claim(RowAction):
    """Become the assignee."""

    name = "claim"
    permission = "complete"
    description = gettext_lazy("Claim selected %(verbose_name_plural)s")
    label = gettext_lazy("Claim")

    def perform_for(
        self, request: HttpRequest, queryset: QuerySet[Any], using: str, data: Mapping[str, Any]
    ) -> Outcome:
        return self.perform(queryset, using, {**data, "user": request.user})

    def operate(self, key: UUID, using: str, data: Mapping[str, Any]) -> None:
        claim(key, data["user"], using=using)

    def done(self, count: int, data: Mapping[str, Any]) -> str:
        return ngettext("%(count)d task is yours.", "%(count)d tasks are yours.", count) % {"count": count}


class Release(RowAction):
    """Give tasks back to their candidates."""

    name = "release"
    permission = "complete"
    description = gettext_lazy("Release selected %(verbose_name_plural)s")
    label = gettext_lazy("Release")

    def operate(self, key: UUID, using: str, data: Mapping[str, Any]) -> None:
        release(key, using=using)

    def done(self, count: int, data: Mapping[str, Any]) -> str:
        return ngettext("%(count)d task may be claimed again.", "%(count)d tasks may be claimed again.", count) % {
            "count": count
        }


class Complete(Claim):
    """Complete tasks, with variables."""

    name = "complete"
    description = gettext_lazy("Complete selected %(verbose_name_plural)s…")
    label = gettext_lazy("Complete…")
    form_class = VariablesForm

    def operate(self, key: UUID, using: str, data: Mapping[str, Any]) -> None:
        complete(key, data["variables"] or {}, user=data["user"], using=using)

    def done(self, count: int, data: Mapping[str, Any]) -> str:
        return ngettext("%(count)d task was completed.", "%(count)d tasks were completed.", count) % {"count": count}


@admin.register(UserTask)
class UserTaskAdmin(ProcessTableAdmin):
    """Tasks that wait for somebody."""

    list_display = ("task", "assignee", "process", "due", "priority", "age", "tenant_id")
    list_display_links = ("task",)
    search_fields = ("assignee__exact", "element_id__exact", "name__startswith")
    search_help_text = gettext_lazy("The assignee, the element, or the beginning of the name.")
    sortable_by = ("priority",)
    ordering = ("-priority", "create_time")
    actions = (Claim(), Complete(), Release())
    change_form_template = "admin/jobexec_processes/task_page.html"
    readonly_fields = ("task", "process", "due", "age")
    fieldsets = ((None, {"fields": (("task", "process"), ("assignee", "priority"), ("due", "age"), "fields")}),)

    def has_complete_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("jobexec_processes.complete_usertask")

    def page_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        candidates = TaskCandidate.objects.using(row._state.db or "default").filter(task_id=row.pk)
        return {"candidates": candidates.order_by("kind", "name")}

    @admin.display(description=gettext_lazy("task"))
    def task(self, row: UserTask) -> str:
        return row.name or row.element_id

    @admin.display(description=gettext_lazy("process instance"))
    def process(self, row: UserTask) -> SafeString:
        page = self.admin_site._registry[ProcessInstance]
        return display.link(page.page_url(row.instance_id), row.definition_id.partition(":")[0])  # type: ignore[attr-defined]

    @admin.display(description=gettext_lazy("due"))
    def due(self, row: UserTask) -> str | SafeString:
        return display.relative(row.due_date, display.now(row))

    @admin.display(description=gettext_lazy("age"))
    def age(self, row: UserTask) -> SafeString:
        return display.age(row.create_time, display.now(row))
