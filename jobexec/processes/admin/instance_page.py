"""The parts of an instance's page beyond its row."""

from __future__ import annotations

import json
from functools import cached_property
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.contrib.auth import get_permission_codename
from django.core.serializers.json import DjangoJSONEncoder
from django.db.models import Model
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from jobexec.admin.common import display
from jobexec.admin.common.base import TableAdmin
from jobexec.admin.common.incident_columns import incident_badge
from jobexec.admin.common.job_columns import state_badge as job_badge
from jobexec.admin.common.job_log_columns import log_badge
from jobexec.models import (
    AuditLog,
    DeadLetterJob,
    Incident,
    IncidentState,
    JobLog,
    Suspension,
    SuspensionScope,
)
from jobexec.operations.why.facts import Reason
from jobexec.sensitive import HIDDEN, hide

from ..definition import Process
from ..models import ActivityInstance, Execution, InstanceState, UserTask, Variable
from ..models.instance import RUNNING
from ..operations.query import InstanceView, Value
from ..operations.why import shortened, why
from ..store.columns import element_of
from .activities import ROWS, activities
from .common import ProcessTableAdmin, element_shown, named, state_badge

LOG_ENTRIES = INCIDENTS = 30
#: The longest value, as JSON, that the page offers to edit.
_EDITABLE = 10_000


class InstancePage:
    """Reads other tables through their own admins, so that it shows only what the user may see there."""

    def __init__(
        self, page: ProcessTableAdmin, request: HttpRequest, view: InstanceView, process: Process | None
    ) -> None:
        self._page, self._request, self._view, self._process = page, request, view, process
        self._using = view.instance._state.db or "default"
        self._now = display.now(view.instance)
        self._site = page.admin_site.name
        self._running = view.instance.state in RUNNING
        self._dead = {job.pk for job in view.jobs if isinstance(job, DeadLetterJob)}

    def context(self) -> dict[str, Any]:
        rows, more = activities(self._view, self._process, self._now, self._site)
        incidents = self.incidents()
        return {
            "is_running": self._running,
            "row_actions": self.actions(),
            "reasons": self.reasons(),
            "incidents": incidents,
            "may_retry": self._may("retry"),
            "activities": rows,
            "more_activities": more,
            "jobs": self.jobs(),
            "job_lists": self.job_lists(),
            "tasks": self.tasks(),
            "variables": self.variables(),
            "may_edit": self._running and self._may("variables"),
            "hierarchy": self.hierarchy(),
            "log": self.log(),
            "log_url": self._log_url(),
            "audit_url": self._audit_url(),
        }

    def _may(self, permission: str) -> bool:
        return bool(getattr(self._page, f"has_{permission}_permission")(self._request))

    def _name(self, element: str) -> str:
        return named(self._process, element)

    def actions(self) -> list[Any]:
        """The actions that apply to this instance."""
        root = self._view.instance.root_id == self._view.instance.pk
        held = Suspension.objects.using(self._using).filter(
            scope=SuspensionScope.PROCESS_INSTANCE, value=str(self._view.instance.pk), live=True
        )
        apply = {
            "cancel": self._running and root,
            "modify": self._view.instance.state == InstanceState.ACTIVE,
            "restart": not self._running,
            "activate": self._running and held.exists(),
            "retry": bool(self._dead),
        }
        return [each for each in self._page.permitted_actions(self._request) if apply.get(each.name, self._running)]

    # Why it waits.

    def reasons(self) -> list[SafeString]:
        found = shortened(why(self._view, self._process, self._now))
        return [self._linked(reason, text) for reason in found if (text := reason.told(self._sees))]

    def _sees(self, table: type[Model]) -> bool:
        return self._sees_variables if table is Variable else self._table(table) is not None

    @cached_property
    def _sees_variables(self) -> bool:
        opts = Variable._meta
        return bool(self._request.user.has_perm(f"{opts.app_label}.{get_permission_codename('view', opts)}"))

    def _linked(self, reason: Reason, text: str) -> SafeString:
        """The text, with links to what it is about."""
        links = []
        details = reason.details
        if (id := details.get("job")) is not None:
            links.append(display.link(self._job_url(UUID(id)), _("the job")))
        if (id := details.get("task")) is not None and (page := self._table(UserTask)) is not None:
            links.append(display.link(page.page_url(id), _("the task")))
        if (id := details.get("instance")) is not None:
            links.append(display.link(self._page.page_url(id), _("the instance")))
        return format_html("{}{}", text, SafeString("".join(f" → {link}" for link in links)))

    def _job_url(self, id: UUID) -> str:
        return reverse("admin:jobexec_job_locate", args=[id], current_app=self._site)

    def _table(self, model: type[Model]) -> TableAdmin | None:
        return self._page.table(model, self._request)

    # Its rows.

    def incidents(self) -> list[dict[str, Any]]:
        page = self._table(Incident)
        if page is None:
            return []
        rows = page.get_queryset(self._request).using(self._using)
        rows = rows.filter(process_instance_id=str(self._view.instance.pk)).order_by("-timestamp", "-pk")
        return [
            {
                "url": page.page_url(row.pk),
                "badge": incident_badge(row),
                "since": display.relative(row.timestamp, self._now),
                "element": element_shown(self._process, row.failed_activity_id),
                "message": display.shortened(row.message, 160),
                "job": row.job_id if row.state == IncidentState.OPEN else None,
            }
            for row in rows[:INCIDENTS]
        ]

    def jobs(self) -> list[dict[str, Any]]:
        """The jobs in tables that the user may see."""
        visible = {type(job): self._table(type(job)) for job in self._view.jobs}
        return [
            {
                "link": display.job_link(job.pk, self._site),
                "element": element_shown(self._process, job.failed_activity_id or element_of(job.job_definition_id)),
                "badge": job_badge(job),
                "handler": display.handler(job.handler_type),
                "due": display.relative(job.due_date, self._now),
                "message": display.shortened(job.exception_message),
            }
            for job in self._view.jobs[:ROWS]
            if visible[type(job)] is not None
        ]

    def job_lists(self) -> list[dict[str, Any]]:
        """The lists with all jobs of the instance."""
        query = urlencode({"q": str(self._view.instance.pk)})
        tables = {type(job) for job in self._view.jobs}
        return [
            {"name": table._meta.verbose_name_plural, "url": f"{self._page.list_url(table)}?{query}"}
            for table in sorted(tables, key=lambda table: table.__name__)
            if self._table(table) is not None
        ]

    def tasks(self) -> list[dict[str, Any]]:
        page = self._table(UserTask)
        if page is None:
            return []
        return [
            {
                "link": display.link(page.page_url(row.pk), row.name or row.element_id),
                "element": row.element_id,
                "assignee": row.assignee or display.NONE,
                "since": display.relative(row.create_time, self._now),
                "due": display.relative(row.due_date, self._now),
            }
            for row in self._view.tasks[:ROWS]
        ]

    def variables(self) -> list[dict[str, Any]]:
        if not self._sees_variables:
            return []
        return [self._variable(each) for each in self._view.values[:ROWS]]

    def _variable(self, each: Value) -> dict[str, Any]:
        """Values of names that are hidden elsewhere are hidden here, too, and can only be replaced."""
        shown = hide({each.name: each.value})[each.name]
        text = json.dumps(shown, indent=2, ensure_ascii=False, cls=DjangoJSONEncoder)
        hidden = HIDDEN in text
        return {
            "name": each.name,
            "scope": self._name(each.element) if each.element else "",
            "value": display.pre(text),
            "edit": "" if hidden else text,
            "editable": not each.element and len(text) <= _EDITABLE,
        }

    def hierarchy(self) -> list[dict[str, Any]]:
        """The caller of this instance, and the instances that it called; deeper ones are on their pages."""
        called = {row.called_instance_id: row.element_id for row in self._view.activities if row.called_instance_id}
        called |= {row.called_instance_id: row.element_id for row in self._view.executions if row.called_instance_id}
        parent = self._parent()
        found = []
        for row in self._view.called:
            if row.pk in called or row.pk == parent:
                found.append(
                    {
                        "url": self._page.page_url(row.pk),
                        "instance": str(row),
                        "badge": state_badge(row.state, row.get_state_display()),
                        "started": display.relative(row.start_time, self._now),
                        "element": element_shown(self._process, called[row.pk]) if row.pk in called else None,
                    }
                )
        return sorted(found, key=lambda each: each["element"] is not None)

    def _parent(self) -> UUID | None:
        instance = self._view.instance
        if instance.parent_execution_id is None:
            return None
        tokens = Execution.objects.using(self._using).filter(root_id=instance.root_id, called_instance_id=instance.pk)
        found: UUID | None = tokens.values_list("instance_id", flat=True).first()
        if found is None:
            others = [row.pk for row in self._view.called]
            rows = ActivityInstance.objects.using(self._using).filter(instance_id__in=others)
            found = rows.filter(called_instance_id=instance.pk).values_list("instance_id", flat=True).first()
        return found

    def log(self) -> list[dict[str, Any]]:
        page = self._table(JobLog)
        if page is None:
            return []
        rows = page.get_queryset(self._request).using(self._using).defer("exception_stack")
        rows = rows.filter(process_instance_id=str(self._view.instance.pk)).order_by("-timestamp", "-pk")
        return [
            {
                "link": display.job_link(row.job_id, self._site),
                "time": display.absolute(row.timestamp),
                "badge": log_badge(row),
                "element": element_shown(self._process, element_of(row.job_definition_id)),
                "attempt": row.attempt,
                "ran": display.duration(row.duration),
                "message": display.shortened(row.exception_message),
            }
            for row in rows[:LOG_ENTRIES]
        ]

    def _log_url(self) -> str:
        return f"{self._page.list_url(JobLog)}?{urlencode({'q': str(self._view.instance.pk)})}"

    def _audit_url(self) -> str:
        """The operators' actions on this instance."""
        if self._table(AuditLog) is None:
            return ""
        return f"{self._page.list_url(AuditLog)}?{urlencode({'q': str(self._view.instance.pk)})}"
