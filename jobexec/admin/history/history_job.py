"""History that is still to be written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext_lazy

from jobexec.models import HistoryJob
from jobexec.operations.manage.history_by_hand import delete_history_jobs, write_history_now

from ..common import display, filters, search, text_filters
from ..common.actions import Action, DeletingAction, Outcome
from ..common.job_columns import JobColumns
from ..common.permissions import OperationPermissions
from ..common.tenancy import COLUMN


class WriteNow(Action):
    """Make history jobs due now."""

    name, permission = "retry_now", "retry"
    description = gettext_lazy("Write selected %(verbose_name_plural)s now")
    label = gettext_lazy("Write now")
    name_column = "handler_type"
    report = ngettext_lazy("%(count)d job is due now.", "%(count)d jobs are due now.", "count")

    def perform(self, queryset: QuerySet[Any], using: str, data: Mapping[str, Any]) -> Outcome:
        result = write_history_now(queryset.values_list("pk", flat=True), using=using)
        return Outcome(list(result.changed), dict(result.skipped))


class DeleteHistory(DeletingAction):
    """Delete history jobs; their history is never written."""

    warning = gettext_lazy("The history that these jobs contain is lost for good.")
    name_column = "handler_type"
    report = ngettext_lazy("%(count)d job deleted.", "%(count)d jobs deleted.", "count")

    def perform(self, queryset: QuerySet[Any], using: str, data: Mapping[str, Any]) -> Outcome:
        result = delete_history_jobs(queryset.values_list("pk", flat=True), using=using)
        return Outcome(list(result.changed), dict(result.skipped))


@admin.register(HistoryJob)
class HistoryJobAdmin(JobColumns, OperationPermissions, search.IndexedSearch):
    """History jobs, the next due first."""

    list_display = ("standing_badge", "handler", "instance_link", "due", "tries", "age")
    list_display_links = ("handler",)
    list_filter = (filters.DUE_DATE, text_filters.TenantFilter)
    tenant_column = COLUMN
    deferred = ("handler_configuration", "custom_headers", "exception_stack")
    search_fields = ("id",)
    search_help_text = search.HELP
    sortable_by = ("due",)
    ordering = ("due_date", "id")
    actions = (WriteNow(), DeleteHistory())
    readonly_fields: ClassVar[Any] = (
        "standing_badge",
        "exception_text",
        "stack",
        "arguments",
    )
    fieldsets = (
        (None, {"fields": (("standing_badge", "due_date", "create_time"), "handler_type", "id")}),
        (gettext_lazy("Last exception"), {"fields": ("exception_text", "stack")}),
        (gettext_lazy("Records"), {"fields": ("arguments",)}),
        (
            gettext_lazy("Attempts and origin"),
            {"fields": (("retries", "attempts", "conflicts"), ("process_instance_id", "tenant_id", "revision"))},
        ),
    )

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return request.user.has_perm("jobexec.delete_historyjob")

    @admin.display(description=gettext_lazy("state"))
    def standing_badge(self, job: HistoryJob) -> SafeString:
        if job.attempts:
            return display.badge("warn", _("waiting for retry"))
        if job.due_date is not None and job.due_date > display.now(job):
            return display.badge("wait", _("waiting"))
        return display.badge("ok", _("due"))
