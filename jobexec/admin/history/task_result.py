"""Results of tasks of django.tasks, and of jobs that keep theirs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from django.conf import settings
from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext_lazy
from rangefilter.filters import DateTimeRangeFilterBuilder

from jobexec.identifiers import as_id
from jobexec.models import KEPT_BY_JOB, Job, JobLog, ResultStatus, TaskResult
from jobexec.operations import find_states
from jobexec.operations.manage.purge import delete_task_results
from jobexec.redaction import redact, redact_results

from ..common import display, filters, search, text_filters
from ..common.actions import DeletingAction, Outcome
from ..common.batching import MOST_BY_PAGES
from ..common.job_columns import CallColumn
from ..common.tenancy import COLUMN
from .result_values import attempts_of, status_badge


class BackendFilter(admin.SimpleListFilter):
    """Filter by backend; offers the aliases of the setting TASKS, and an entry for ``@job``."""

    title = gettext_lazy("task backend")
    parameter_name = "of_backend"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(name, name) for name in (*getattr(settings, "TASKS", {}), KEPT_BY_JOB)]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(backend=self.value()) if self.value() else queryset


class DeleteResults(DeletingAction):
    """Delete task results."""

    warning = gettext_lazy("Code that asks for these results no longer finds them. Waiting jobs are not affected.")
    name_column = "handler_type"
    most = MOST_BY_PAGES
    report = ngettext_lazy("%(count)d task result deleted.", "%(count)d task results deleted.", "count")

    def perform(self, queryset: QuerySet[Any], using: str, data: Mapping[str, Any]) -> Outcome:
        return Outcome(list(delete_task_results(queryset.values_list("pk", flat=True), using=using)))


@admin.register(TaskResult)
class TaskResultAdmin(CallColumn):
    """Results of tasks, the latest enqueued first."""

    list_display = ("status_badge", "handler", "backend", "enqueued", "ended", "tries", "returned")
    list_display_links = ("handler",)
    list_filter = (
        "status",
        BackendFilter,
        filters.HandlerFilter,
        ("end_time", DateTimeRangeFilterBuilder(title=gettext_lazy("end time"))),
        filters.CREATE_TIME,
        text_filters.TenantFilter,
    )
    tenant_column = COLUMN
    deferred = ("handler_configuration",)
    search_fields = ("id",)
    search_help_text = gettext_lazy("An id, or the beginning of a task's full or short name (charge_card).")
    sortable_by = ()
    ordering = ("-id",)  # ids are ordered by time
    actions = (DeleteResults(),)
    change_form_template = "admin/jobexec/task_result_page.html"
    readonly_fields = (
        "status_badge",
        "job",
        "enqueued_exactly",
        "first_exactly",
        "last_exactly",
        "ended_exactly",
        "kept_until",
        "arguments",
        "returned_value",
    )
    fieldsets = (
        (None, {"fields": (("status_badge", "job"), ("handler_type", "id"), ("enqueued_exactly", "ended_exactly"))}),
        (gettext_lazy("Return value"), {"fields": ("returned_value",)}),
        (gettext_lazy("Arguments"), {"fields": ("arguments",)}),
        (
            gettext_lazy("Origin"),
            {
                "fields": (
                    ("backend", "category", "priority"),
                    ("first_exactly", "last_exactly", "run_after"),
                    ("kept_until",),
                    ("process_instance_id", "tenant_id"),
                ),
                "classes": ("jobexec-below",),
            },
        ),
    )

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return request.user.has_perm("jobexec.delete_taskresult")

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        term = search_term.strip()
        id = as_id(term)
        if not term:
            return queryset, False
        of_handlers = search.by_handler(term, search.handlers_named(term, queryset.db))
        return queryset.filter(of_handlers if id is None else Q(pk=id)), False

    def complete(self, rows: Sequence[TaskResult]) -> None:
        """Look up the jobs of results that may have one, and hide sensitive values in return values."""
        super().complete(rows)
        for row, shown in redact_results(rows, rows[0]._state.db or "default") if rows else ():
            row.shown = shown  # type: ignore[attr-defined]
        open_rows = {row.pk: row for row in rows if row.status != ResultStatus.SUCCESSFUL}
        if open_rows:
            for id, table in find_states(list(open_rows), rows[0]._state.db or "default").items():
                open_rows[id].living = table  # type: ignore[attr-defined]

    def page_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        return {"attempts": attempts_of(row)}

    @admin.display(description=gettext_lazy("status"))
    def status_badge(self, row: TaskResult) -> SafeString:
        return status_badge(row)

    @admin.display(description=gettext_lazy("enqueued"))
    def enqueued(self, row: TaskResult) -> str | SafeString:
        return display.relative(row.create_time, display.now(row))

    @admin.display(description=gettext_lazy("ended"))
    def ended(self, row: TaskResult) -> str | SafeString:
        return display.relative(row.end_time, display.now(row))

    @admin.display(description=gettext_lazy("attempts"))
    def tries(self, row: TaskResult) -> int:
        return max(len(row.workers or ()), len(row.errors or ()))

    @admin.display(description=gettext_lazy("returned"))
    def returned(self, row: TaskResult) -> str | SafeString:
        if row.status != ResultStatus.SUCCESSFUL:
            last = (row.errors or [{}])[-1]
            return display.shortened(str(last.get("exception_class_path", "")).rpartition(".")[2], 60)
        return display.shortened(json.dumps(row.shown, ensure_ascii=False), 60)  # type: ignore[attr-defined]

    @admin.display(description=gettext_lazy("enqueued"))
    def enqueued_exactly(self, row: TaskResult) -> str | SafeString:
        return display.exact(row.create_time, display.now(row))

    @admin.display(description=gettext_lazy("first attempt"))
    def first_exactly(self, row: TaskResult) -> str | SafeString:
        return display.exact(row.first_time, display.now(row))

    @admin.display(description=gettext_lazy("last attempt"))
    def last_exactly(self, row: TaskResult) -> str | SafeString:
        return display.exact(row.last_time, display.now(row))

    @admin.display(description=gettext_lazy("ended"))
    def ended_exactly(self, row: TaskResult) -> str | SafeString:
        return display.exact(row.end_time, display.now(row))

    @admin.display(description=gettext_lazy("kept until"))
    def kept_until(self, row: TaskResult) -> str | SafeString:
        return display.exact(row.expires_at, display.now(row))

    @admin.display(description=gettext_lazy("arguments"))
    def arguments(self, row: TaskResult) -> str | SafeString:
        return display.json_text(redact(row.handler_type, row.handler_configuration, row._state.db))

    @admin.display(description=gettext_lazy("return value"))
    def returned_value(self, row: TaskResult) -> str | SafeString:
        if row.status != ResultStatus.SUCCESSFUL:
            return display.NONE
        return display.pre(json.dumps(row.shown, indent=2, ensure_ascii=False))  # type: ignore[attr-defined]

    @admin.display(description=gettext_lazy("job"))
    def job(self, row: TaskResult) -> SafeString:
        if getattr(row, "living", None) is not None:
            return (
                display.job_link(row.pk, self.admin_site.name) if self._has_page(Job) else display.handler(str(row.pk))
            )
        text = _("The job is done or deleted; see its log")
        return (
            display.link(self.list_url(JobLog), text, q=str(row.pk))
            if self._has_page(JobLog)
            else format_html("{}", display.NONE)
        )

    def _has_page(self, table: type[Any]) -> bool:
        return table in self.admin_site._registry
