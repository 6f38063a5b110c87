"""The page of a handler, a category or a tenant: what it does, what fails, and what operators can do about it."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.contrib.admin import AdminSite
from django.core.exceptions import PermissionDenied
from django.db import router
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.translation import gettext as _

from jobexec import clock
from jobexec.conf import get_settings
from jobexec.handlers.function import JobFunction
from jobexec.handlers.registry import all_handlers
from jobexec.models import (
    JOB_TABLES,
    DeadLetterJob,
    FailureGroup,
    Job,
    JobDefinition,
    JobLog,
    MeterLog,
    Resource,
    SuspensionScope,
)
from jobexec.operations.reports import subjects
from jobexec.operations.reports.resources import resource_status
from jobexec.operations.values.tenant_room import TenantRoom

from ..common import display
from ..common.job_columns import visible_calls
from ..common.job_log_columns import log_badge
from ..common.page_links import titled
from ..dashboard import flow
from ..dashboard.choice import PERIODS
from ..history.failure_group import standing_badge
from .base import Page

_SCOPES = {
    "handler": SuspensionScope.JOB_DEFINITION,
    "category": SuspensionScope.CATEGORY,
    "tenant": SuspensionScope.TENANT,
}
DEFINITIONS_SHOWN = 50


def subject_view(request: HttpRequest, kind: str, site: AdminSite) -> HttpResponse:
    """The page; each part of it needs the permission to view its table."""
    value = request.GET.get("name", "")
    if kind not in subjects.KINDS or not value or "\0" in value:
        raise Http404
    return _Subject(request, site, kind, value).response()


class _Subject(Page):
    def __init__(self, request: HttpRequest, site: AdminSite, kind: str, value: str) -> None:
        super().__init__(request, site, router.db_for_read(Job))
        self.kind, self.value = kind, value
        self.column = subjects.KINDS[kind]
        period = request.GET.get("period", "")
        self.period = period if period in PERIODS else next(iter(PERIODS))

    def response(self) -> HttpResponse:
        if self.tenants is not None and self.kind == "tenant" and self.value not in self.tenants:
            raise Http404  # as if it did not exist
        parts = {
            "flow": self.flow(),
            "standing": self.standing(),
            "groups": self.groups(),
            "runs": self.runs(),
            "definitions": self.definitions(),
            "resources": self.resources(),
        }
        if all(part is None for part in parts.values()):
            raise PermissionDenied
        scope = _SCOPES[self.kind]
        return self.render(
            "admin/jobexec/pages/subject.html",
            titled(self.kind, self.value),
            {
                "kind": self.kind,
                "value": self.value,
                "periods": self.periods(),
                "suspension": self.suspension(scope, self.value),
                "tenants": None if self.tenants is None else sorted(self.tenants),
                "most": subjects.MOST[self.kind],
                "limit": self.limit(),
                "many_categories": len(get_settings().categories) > subjects.MOST["category"],
                **parts,
            },
        )

    def periods(self) -> list[dict[str, Any]]:
        return [
            {
                "text": text,
                "query": urlencode({"name": self.value, "period": name}),
                "current": name == self.period,
            }
            for name, (_length, text) in PERIODS.items()
        ]

    def flow(self) -> dict[str, Any] | None:
        """Rates and durations; they are of all tenants, unless the page is that of one."""
        if not self.visible.may(MeterLog) or (self.tenants is not None and self.kind != "tenant"):
            return None
        now, length = clock.now(self.using), PERIODS[self.period][0]
        found = flow.runs(subjects.runs_of(self.using, self.kind, self.value, now, length), now)
        if self.kind == "category":
            steps = subjects.backlog_over_time(self.using, now, length, self.value)
            found["backlog"] = flow.backlog(steps, now)
        return found

    def limit(self) -> int | None:
        """How many jobs of the tenant each node may hold, by the settings of this process."""
        concurrency = get_settings().tenant_concurrency if self.kind == "tenant" else None
        return TenantRoom(concurrency, {}).limit(self.value) if concurrency else None

    def standing(self) -> list[dict[str, Any]] | None:
        """How many of its jobs run, and are in each table."""
        if not any(map(self.visible.may, JOB_TABLES)):
            return None
        found = subjects.standing_of(self.using, self.kind, self.value, self.tenants)
        rows = []
        if self.visible.may(Job):
            url = self.visible.list(Job, lock="held", **{self.column: self.value})
            rows.append({"name": _("In progress"), "count": found.running, "kind": "work", "url": url})
        kinds = {Job: "ok", DeadLetterJob: "bad"}
        rows += [
            {
                "name": _("Executable") if table is Job else capfirst(str(table._meta.verbose_name_plural)),
                "count": count,
                "kind": kinds.get(table, "wait"),
                "url": self.visible.list(table, **{self.column: self.value}),
            }
            for table, count in found.tables.items()
            if self.visible.may(table) and (count.likely or table in kinds)
        ]
        return rows

    def groups(self) -> list[dict[str, Any]] | None:
        if not self.visible.may(FailureGroup) or self.tenants is not None:
            return None
        now = clock.now(self.using)
        return [
            {
                "title": str(each.group),
                "handler": display.handler(each.group.handler_type) if self.kind != "handler" else "",
                "message": display.shortened(each.group.message, 100),
                "url": self.visible.page(FailureGroup, each.group.pk),
                "badge": standing_badge(each.group, now),
                "incidents": each.incidents,
                "dead_letters_url": self.visible.list(DeadLetterJob, fingerprint=each.group.pk),
                "last": display.relative(each.group.last_time, now),
                "assigned_to": each.group.assigned_to,
            }
            for each in subjects.groups_of(self.using, self.kind, self.value)
        ]

    def runs(self) -> dict[str, Any] | None:
        """The last runs, from the log."""
        if self.admin(JobLog) is None:
            return None
        now = clock.now(self.using)
        entries = list(subjects.last_runs(self.using, self.kind, self.value, self.tenants))
        calls = visible_calls(self.request, self.site, {entry.job_id for entry in entries}, self.using)
        rows = [
            {
                "job": display.job_link(entry.job_id, self.site.name),
                "handler": self.call(entry.handler_type, calls.get(entry.job_id, "")),
                "badge": log_badge(entry),
                "time": display.relative(entry.timestamp, now),
                "duration": display.NONE if entry.duration is None else display.duration(entry.duration),
                "wait": display.NONE if entry.wait is None else display.duration(entry.wait),
                "node": entry.node,
                "message": display.shortened(entry.exception_message, 100) if entry.exception_message else "",
            }
            for entry in entries
        ]
        return {"rows": rows, "url": self.visible.list(JobLog, **{self.column: self.value})}

    def call(self, handler_type: str, call: str) -> SafeString | str:
        """The call of a job that is still there, or its handler; on the page of a handler this goes without saying."""
        if self.kind == "handler":
            return display.call("", call) if call else ""
        return display.call(handler_type, call)

    def definitions(self) -> list[dict[str, Any]] | None:
        """Its job definitions with their options and retry plans; a tenant has none of its own."""
        definitions = self.admin(JobDefinition)
        if definitions is None or self.kind == "tenant":
            return None
        rows = JobDefinition.objects.using(self.using).filter(**{self.column: self.value}).order_by("id")
        return [
            {
                "name": row.pk,
                "url": definitions.page_url(row.pk),
                "category": row.category,
                "priority": row.priority if row.overriding_priority is None else row.overriding_priority,
                "plan": row.retry_plan or _("%(plan)s, the default") % {"plan": get_settings().default_retry_plan},
                "exclusive": row.exclusive,
            }
            for row in rows[:DEFINITIONS_SHOWN]
        ]

    def resources(self) -> list[dict[str, Any]] | None:
        """The resources of its waiting and running jobs and of its code, with the permits in use.

        A tenant has the entry for it, too.
        """
        if self.admin(Resource) is None or not get_settings().resources:
            return None
        names = subjects.resources_of(self.using, self.kind, self.value)
        own = get_settings().resources.of_tenant(self.value) if self.kind == "tenant" else None
        names += sorted({*_declared(self.kind, self.value), *([own] if own else [])}.difference(names))
        return [
            {
                "name": status.name,
                "url": self.visible.list(Resource, q=status.name),
                "limit": display.NONE if status.limits is None or status.limits.limit is None else status.limits.limit,
                "rate": display.NONE if status.limits is None or status.limits.rate is None else status.limits.rate,
                "in_use": status.in_use,
                "waiting": status.waiting,
                "breaker": status.breaker_words if status.breaker else display.NONE,
            }
            for status in (resource_status(self.using, names) if names else [])
        ]


def _declared(kind: str, value: str) -> set[str]:
    """The resources that ``@job`` names for a handler or a category; those that depend on arguments are unknown."""
    named: set[str] = set()
    for each in all_handlers():
        options: Any = each.options if isinstance(each, JobFunction) else {}
        of = {"handler": each.name, "category": options.get("category", "default")}.get(kind)
        if of == value and isinstance(resource := options.get("resource"), str):
            named.add(resource)
    return named
