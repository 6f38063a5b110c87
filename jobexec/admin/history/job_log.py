"""The job log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from jobexec.models import JobLog

from ..common import display, filters, search, text_filters
from ..common.job_columns import visible_calls
from ..common.job_log_columns import log_badge
from ..common.page_links import instance_link
from ..common.tenancy import COLUMN


@admin.register(JobLog)
class JobLogAdmin(search.IndexedSearch):
    """The log, newest first; each entry links to its job in whichever table it is now."""

    list_display = (
        "time",
        "state_badge",
        "handler",
        "job_link",
        "instance",
        "attempt_on_node",
        "times",
    )
    list_display_links = ("time",)
    tenant_column = COLUMN
    list_filter = ("state", filters.TIMESTAMP, filters.CategoryFilter, filters.HandlerFilter, text_filters.TenantFilter)
    sortable_by = ("time",)
    ordering = ("-timestamp", "-id")
    search_fields = ("job_id",)
    search_help_text = search.LOG_HELP
    id_column = "job_id"
    deferred = ("exception_stack",)
    readonly_fields = ("time", "state_badge", "job_link", "waited", "ran", "exception_text", "stack")
    fieldsets = (
        (None, {"fields": ("time", "state_badge", "handler_type", "job_link", "process_instance_id")}),
        (
            _("Attempt"),
            {"fields": (("attempt", "retries"), ("node", "client"), ("waited", "ran"), "due_date", "priority")},
        ),
        (_("Exception"), {"fields": ("exception_text", "stack")}),
        (
            _("Origin"),
            {
                "fields": (
                    "category",
                    "job_definition_id",
                    "process_definition_key",
                    ("deployment_id", "tenant_id"),
                )
            },
        ),
    )

    def complete_shown(self, request: HttpRequest, rows: Sequence[Any]) -> None:
        """The log has no arguments: entries show the calls of jobs that are still there."""
        super().complete_shown(request, rows)
        ids = {row.job_id for row in rows}
        calls = visible_calls(request, self.admin_site, ids, rows[0]._state.db or "default") if ids else {}
        for row in rows:
            row.call = calls.get(row.job_id, "")

    @admin.display(description=_("time"), ordering="timestamp")
    def time(self, entry: JobLog) -> str:
        return display.absolute(entry.timestamp)

    @admin.display(description=_("event"))
    def state_badge(self, entry: JobLog) -> SafeString:
        return log_badge(entry)

    @admin.display(description=_("handler"))
    def handler(self, entry: JobLog) -> SafeString:
        call = vars(entry).get("call", "")
        return display.call(entry.handler_type, call, entry.tenant_id, entry.exception_message)

    @admin.display(description=_("job"))
    def job_link(self, entry: JobLog) -> SafeString:
        return display.job_link(entry.job_id, self.admin_site.name)

    @admin.display(description=_("process instance"), empty_value=display.NONE)
    def instance(self, entry: JobLog) -> SafeString | str | None:
        return instance_link(self.admin_site.name, entry.process_instance_id, entry.tenant_id)

    @admin.display(description=_("attempt, node"))
    def attempt_on_node(self, entry: JobLog) -> SafeString:
        return _above(str(entry.attempt), entry.node or display.NONE)

    @admin.display(description=_("waited, ran"))
    def times(self, entry: JobLog) -> SafeString:
        return _above(display.duration(entry.wait), display.duration(entry.duration))

    @admin.display(description=_("waited"))
    def waited(self, entry: JobLog) -> str:
        return display.duration(entry.wait)

    @admin.display(description=_("ran"))
    def ran(self, entry: JobLog) -> str:
        return display.duration(entry.duration)

    @admin.display(description=_("exception"))
    def exception_text(self, entry: JobLog) -> str | SafeString:
        return display.pre(entry.exception_message)

    @admin.display(description=_("stack trace"))
    def stack(self, entry: JobLog) -> str | SafeString:
        return display.stack_trace(entry.exception_stack)


def _above(first: str, second: str) -> SafeString:
    return format_html('<span class="jobexec-line">{}</span><br><span class="jobexec-line">{}</span>', first, second)
