"""User tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy, ngettext_lazy

from jobexec.admin.common import display
from jobexec.admin.common.actions import Outcome
from jobexec.admin.common.filters import YesNoFilter
from jobexec.admin.common.text_filters import TextFilter

from ..models import ProcessInstance, TaskCandidate, UserTask
from ..operations import user_tasks
from ..store.columns import key_of
from .common import ProcessAction, ProcessTableAdmin
from .forms import VariablesForm
from .task_form import form_of, shown_form


class Claim(ProcessAction):
    """Become the assignee."""

    name = "claim"
    permission = "complete"
    description = gettext_lazy("Claim selected %(verbose_name_plural)s")
    label = gettext_lazy("Claim")
    report = ngettext_lazy("%(count)d task claimed.", "%(count)d tasks claimed.", "count")

    def perform_for(
        self, request: HttpRequest, queryset: QuerySet[Any], using: str, data: Mapping[str, Any]
    ) -> Outcome:
        return self.perform(queryset, using, {**data, "user": request.user})

    def operate(self, key: UUID, using: str, data: Mapping[str, Any]) -> None:
        user_tasks.claim(key, data["user"], using=using)


class Release(ProcessAction):
    """Give tasks back to their candidates."""

    name = "release"
    permission = "complete"
    description = gettext_lazy("Release selected %(verbose_name_plural)s")
    label = gettext_lazy("Release")
    report = ngettext_lazy("%(count)d task released.", "%(count)d tasks released.", "count")

    def operate(self, key: UUID, using: str, data: Mapping[str, Any]) -> None:
        user_tasks.release(key, using=using)


class Complete(Claim):
    """Complete tasks, with variables."""

    name = "complete"
    description = gettext_lazy("Complete selected %(verbose_name_plural)s…")
    label = gettext_lazy("Complete…")
    form_class = VariablesForm
    name_column = "name"
    report = ngettext_lazy("%(count)d task was completed.", "%(count)d tasks were completed.", "count")

    def form_for(self, queryset: QuerySet[Any]) -> type[forms.Form] | None:
        """The form of the task's model, if it is one task."""
        fields = list(queryset.values_list("fields", flat=True)[:2])
        return form_of(fields[0] or []) if len(fields) == 1 else self.form_class

    def operate(self, key: UUID, using: str, data: Mapping[str, Any]) -> None:
        user_tasks.complete(key, data["variables"] or {}, user=data["user"], using=using)


class MineFilter(YesNoFilter):
    """The tasks that the user has, or may claim."""

    title = gettext_lazy("assignee")
    parameter_name = "whose"
    choice_labels = (("mine", gettext_lazy("Assigned to me, or for me to claim")), ("free", gettext_lazy("Unassigned")))

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if self.value() == "mine":
            mine: QuerySet[Any] = UserTask.objects.using(queryset.db).for_user(request.user)
            return queryset.filter(pk__in=mine.values("pk"))
        return queryset.filter(assignee="") if self.value() == "free" else queryset


class AssigneeFilter(TextFilter):
    """By the name of the assignee."""

    title = gettext_lazy("assignee")
    parameter_name = column = "assignee"


@admin.register(UserTask)
class UserTaskAdmin(ProcessTableAdmin):
    """The admin of open user tasks."""

    list_display = ("task", "assignee", "process", "due", "priority", "age", "tenant_id")
    list_filter = (MineFilter, AssigneeFilter)
    list_display_links = ("task",)
    search_fields = ("assignee__exact", "element_id__exact", "name__startswith")
    search_help_text = gettext_lazy("The assignee, the element, or the beginning of the name.")
    sortable_by = ("priority",)
    ordering = ("-priority", "create_time")
    actions = (Claim(), Complete(), Release())
    readonly_fields = ("task", "process", "due", "follow_up", "age", "candidates", "task_form")
    fieldsets = (
        (
            None,
            {
                "fields": (
                    ("task", "process"),
                    ("assignee", "candidates", "priority"),
                    ("due", "follow_up", "age"),
                    "task_form",
                )
            },
        ),
    )

    def has_complete_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("jobexec_processes.complete_usertask")

    def complete(self, rows: Sequence[UserTask]) -> None:
        """The business keys of all instances at once."""
        if rows:
            instances = ProcessInstance.objects.using(rows[0]._state.db or "default")
            found = instances.filter(pk__in=[row.instance_id for row in rows]).values_list("pk", "business_key")
            keys = dict(found)
            for row in rows:
                row.business_key = keys.get(row.instance_id, "")  # type: ignore[attr-defined]

    def page_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        may_take = bool(row.assignee) or user_tasks.may_take(row._state.db or "default", row, request.user)
        free = {"claim": not row.assignee and may_take, "release": bool(row.assignee), "complete": may_take}
        return {"row_actions": [each for each in self.permitted_actions(request) if free.get(each.name, True)]}

    @admin.display(description=gettext_lazy("candidates"))
    def candidates(self, row: UserTask) -> str | SafeString:
        found = TaskCandidate.objects.using(row._state.db or "default").filter(task_id=row.pk).order_by("kind", "name")
        return display.lines([f"{each.name} ({each.get_kind_display()})" for each in found])

    @admin.display(description=gettext_lazy("form"))
    def task_form(self, row: UserTask) -> str | SafeString:
        """The URL of a project's own view takes the task's id."""
        return shown_form(row.fields, row.form_key, row.pk)

    @admin.display(description=gettext_lazy("follow-up date"))
    def follow_up(self, row: UserTask) -> str | SafeString:
        return display.relative(row.follow_up_date, display.now(row))

    @admin.display(description=gettext_lazy("task"))
    def task(self, row: UserTask) -> str:
        return row.name or row.element_id

    @admin.display(description=gettext_lazy("process instance"))
    def process(self, row: UserTask) -> SafeString:
        page: Any = self.admin_site._registry[ProcessInstance]
        name = " ".join(filter(None, (key_of(row.definition_id), getattr(row, "business_key", ""))))
        return display.link(page.page_url(row.instance_id), name)

    @admin.display(description=gettext_lazy("due"))
    def due(self, row: UserTask) -> str | SafeString:
        return display.relative(row.due_date, display.now(row))

    @admin.display(description=gettext_lazy("age"))
    def age(self, row: UserTask) -> SafeString:
        return display.age(row.create_time, display.now(row))
