"""Process instances."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.contrib import admin
from django.http import HttpRequest
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy, ngettext

from jobexec.admin.common import display
from jobexec.models import DeadLetterJob
from jobexec.sensitive import hide

from ..engine.rows import State
from ..models import InstanceState, ProcessDefinition, ProcessInstance, UserTask
from ..operations.instances import cancel
from ..operations.query import InstanceView, view_of
from ..picture.svg import Standing, picture
from ..store import definitions
from .common import ProcessTableAdmin, RowAction, state_badge
from .forms import ReasonForm

#: What an execution does, for people.
STATES = {
    State.MOVING: gettext_lazy("moves"),
    State.WAITING: gettext_lazy("waits"),
    State.BEFORE: gettext_lazy("its job begins it"),
    State.AFTER: gettext_lazy("its job leaves it"),
    State.OUTSIDE: gettext_lazy("its job runs"),
    State.JOINED: gettext_lazy("waits for others at a join"),
    State.SCOPE: gettext_lazy("contains others"),
    State.FAILED: gettext_lazy("has an incident"),
    State.COMPENSABLE: gettext_lazy("is done, and can be undone"),
}


class Cancel(RowAction):
    """Cancel instances, with all that they called."""

    name = "cancel"
    permission = "cancel"
    description = gettext_lazy("Cancel selected %(verbose_name_plural)s…")
    label = gettext_lazy("Cancel…")
    form_class = ReasonForm
    dangerous = True
    warning = gettext_lazy("Their jobs, tasks and timers are removed. A flow first undoes what its steps have done.")

    def operate(self, key: UUID, using: str, data: Mapping[str, Any]) -> None:
        cancel(key, data["reason"], using=using)

    def done(self, count: int, data: Mapping[str, Any]) -> str:
        return ngettext(
            "%(count)d process instance was cancelled.", "%(count)d process instances were cancelled.", count
        ) % {"count": count}


@admin.register(ProcessInstance)
class ProcessInstanceAdmin(ProcessTableAdmin):
    """Instances that run, and those that have ended, the latest first."""

    list_display = ("state_badge", "process", "business_key", "started", "ended", "tenant_id")
    list_display_links = ("state_badge", "process")
    list_filter = ("state",)
    search_fields = ("business_key__startswith", "definition_key__exact", "id__exact")
    search_help_text = gettext_lazy("The beginning of the business key, the key of the process, or the id.")
    sortable_by = ("started",)
    ordering = ("-start_time", "-id")
    deferred = ("final_variables",)
    actions = (Cancel(),)
    change_form_template = "admin/jobexec_processes/instance_page.html"
    readonly_fields = ("state_badge", "process", "started", "ended")
    fieldsets = (
        (
            None,
            {
                "fields": (
                    ("state_badge", "process", "business_key"),
                    ("started", "ended", "start_user"),
                    ("id", "tenant_id"),
                    "delete_reason",
                )
            },
        ),
    )

    def has_cancel_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("jobexec_processes.cancel_processinstance")

    def page_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        using = row._state.db or "default"
        view = view_of(using, row.pk)
        now, site = display.now(row), self.admin_site.name
        context: dict[str, Any] = {
            "executions": [
                {
                    "element": each.element_id,
                    "state": STATES[State(each.state)],
                    "since": display.relative(each.entered_at, now),
                }
                for each in view.executions
                if each.state not in (State.SCOPE.value, State.COMPENSABLE.value)
            ],
            "jobs": [
                {
                    "link": display.job_link(job.pk, site),
                    "element": job.failed_activity_id,
                    "table": job._meta.verbose_name,
                    "handler": display.handler(job.handler_type),
                    "message": display.shortened(job.exception_message),
                }
                for job in view.jobs
            ],
            "tasks": [
                {"url": self._task_url(each), "name": each.name or each.element_id, "assignee": each.assignee}
                for each in view.tasks
            ],
            "variables": [(name, display.json_text(value)) for name, value in sorted(_variables(view).items())],
            "activities": [
                {
                    "element": each.element_id,
                    "kind": each.kind,
                    "state": each.state,
                    "started": display.exact(each.start_time, now),
                    "took": display.duration((each.end_time - each.start_time).total_seconds()),
                }
                for each in view.activities
            ],
            "called": [
                {
                    "url": self.page_url(each.pk),
                    "instance": str(each),
                    "state": state_badge(each.state, each.get_state_display()),
                }
                for each in view.called
            ],
        }
        if view.definition is not None:
            process = definitions.process(using, view.definition.pk)
            context["picture"] = picture(process, _standing(view))
            context["definition_url"] = self.admin_site._registry[ProcessDefinition].page_url(view.definition.pk)  # type: ignore[attr-defined]
        return context

    def _task_url(self, task: UserTask) -> str:
        return str(self.admin_site._registry[UserTask].page_url(task.pk))  # type: ignore[attr-defined]

    @admin.display(description=gettext_lazy("state"))
    def state_badge(self, row: ProcessInstance) -> SafeString:
        return state_badge(row.state, InstanceState(row.state).label)

    @admin.display(description=gettext_lazy("process"))
    def process(self, row: ProcessInstance) -> str:
        return row.definition_key

    @admin.display(description=gettext_lazy("started"), ordering="start_time")
    def started(self, row: ProcessInstance) -> str | SafeString:
        return display.relative(row.start_time, display.now(row))

    @admin.display(description=gettext_lazy("ended"))
    def ended(self, row: ProcessInstance) -> str | SafeString:
        return display.relative(row.end_time, display.now(row))


def _variables(view: InstanceView) -> Mapping[str, Any]:
    """Values of arguments that are masked elsewhere are masked here, too."""
    found = view.instance.final_variables
    if found is None:
        found = {row.name: row.value for row in view.variables}
    hidden: Mapping[str, Any] = hide(found)
    return hidden


def _standing(view: InstanceView) -> dict[str, Standing]:
    held = (State.COMPENSABLE.value,)
    waiting = Counter(row.element_id for row in view.executions if row.state not in held)
    incidents = Counter(job.failed_activity_id for job in view.jobs if isinstance(job, DeadLetterJob))
    done = Counter(row.element_id for row in view.activities if row.state == "completed")
    return {id: Standing(waiting[id], incidents[id], done[id]) for id in {*waiting, *incidents, *done}}
