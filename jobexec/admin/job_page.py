"""The admin that the job tables share: the list with its tabs, and the page of one job."""

from __future__ import annotations

from typing import Any, ClassVar
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.contrib.admin.models import LogEntry
from django.contrib.admin.utils import unquote
from django.contrib.contenttypes.models import ContentType
from django.db import router
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import path, reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from jobexec.exceptions import JobNotFound
from jobexec.models import JOB_TABLES, AbstractJob, JobLog
from jobexec.operations import find_job

from . import search
from .base import TableAdmin
from .job_columns import JobColumns
from .job_log_columns import attempt_of
from .paging import CappedCount

LOG_SHOWN = 50


class JobTableAdmin(JobColumns, TableAdmin):
    """A job table: tabs over the list, buttons and history on the page of a job."""

    own_columns: ClassVar[tuple[str, ...]] = ()
    """The columns of this table alone."""

    deferred = ("handler_configuration", "custom_headers", "exception_stack")
    search_fields = ("id",)
    search_help_text = search.HELP
    list_display_links = ("handler",)
    change_list_template = "admin/jobexec/job_list.html"
    change_form_template = "admin/jobexec/job_page.html"
    readonly_fields: ClassVar[Any] = (
        "state_badge",
        "due_exactly",
        "created_exactly",
        "progress",
        "exception_text",
        "stack",
        "arguments",
        "headers",
    )

    # Permissions: those of Job count for all job tables, because a job keeps nothing of them when it moves.

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return request.user.has_perm(f"jobexec.delete_{self.opts.model_name}")

    def has_retry_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("jobexec.retry_job")

    def has_cancel_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("jobexec.cancel_job")

    def has_suspend_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("jobexec.suspend_job")

    def has_activate_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("jobexec.activate_job")

    def has_reschedule_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("jobexec.reschedule_job")

    def has_prioritize_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("jobexec.prioritize_job")

    def has_requeue_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("jobexec.requeue_deadletterjob")

    # The list.

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        return search.search(queryset, search_term), False

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        tabs = self._tabs(request) if request.method == "GET" else []
        return super().changelist_view(request, {"tabs": tabs, **(extra_context or {})})

    def _tabs(self, request: HttpRequest) -> list[dict[str, Any]]:
        """One per job table that the user may see, with what the search finds in it: a job may be in any."""
        term, tabs = request.GET.get("q", ""), []
        for table in JOB_TABLES:
            table_admin = self.admin_site._registry.get(table)
            if table_admin is None or not table_admin.has_view_permission(request):
                continue
            count = CappedCount.of(search.search(table_admin.get_queryset(request), term))
            url = self.list_url(table) + (f"?{urlencode({'q': term})}" if term else "")
            name = table._meta.verbose_name_plural
            tabs.append({"name": name, "url": url, "count": count, "current": table is self.model})
        return tabs

    # The page of one job.

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        failed = obj is None or obj.exception_message or obj.exception_stack
        return [
            (None, {"fields": [("state_badge", *self.own_columns, "due_exactly", "created_exactly"), *_OVERVIEW]}),
            *([(gettext_lazy("Last exception"), {"fields": ["exception_text", "stack"]})] if failed else []),
            (gettext_lazy("Arguments"), {"fields": ["arguments", "headers"]}),
            (gettext_lazy("Attempts"), {"fields": _ATTEMPTS}),
            (gettext_lazy("Execution"), {"fields": _EXECUTION}),
            (gettext_lazy("Origin"), {"fields": _ORIGIN, "classes": ["collapse"]}),
        ]

    def page_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        return {
            "siblings": self._siblings(request, row),
            "attempts": self._attempts(request, row),
            "interventions": interventions(row),
        }

    def _siblings(self, request: HttpRequest, job: AbstractJob) -> list[dict[str, Any]]:
        if not job.process_instance_id:
            return []
        query = urlencode({"q": job.process_instance_id})
        related: tuple[type[Model], ...] = (*JOB_TABLES, JobLog)
        tables = [(table, self.admin_site._registry.get(table)) for table in related]
        return [
            {"name": table._meta.verbose_name_plural, "url": f"{self.list_url(table)}?{query}"}
            for table, table_admin in tables
            if table_admin is not None and table_admin.has_view_permission(request)
        ]

    def _attempts(self, request: HttpRequest, job: AbstractJob) -> dict[str, Any] | None:
        """What the log says about the job, newest first; None for users who may not see the log."""
        log_admin = self.admin_site._registry.get(JobLog)
        if log_admin is None or not log_admin.has_view_permission(request):
            return None
        rows = list(
            log_admin.get_queryset(request).filter(job_id=job.pk).order_by("-timestamp", "-pk")[: LOG_SHOWN + 1]
        )
        url = f"{self.list_url(JobLog)}?{urlencode({'q': str(job.pk)})}"
        return {"rows": [attempt_of(row) for row in rows[:LOG_SHOWN]], "url": url, "more": len(rows) > LOG_SHOWN}

    # A job by its id, wherever it is.

    def get_urls(self) -> list[Any]:
        view = self.admin_site.admin_view(self.locate_view)
        name = f"{self.opts.app_label}_{self.opts.model_name}_locate"
        return [path("locate/<uuid:id>/", view, name=name), *super().get_urls()]

    def page_url(self, key: Any) -> str:
        """The address that leads to the job in whichever table it is by then."""
        name = f"admin:{self.opts.app_label}_{self.opts.model_name}_locate"
        return reverse(name, args=[key], current_app=self.admin_site.name)

    def locate_view(self, request: HttpRequest, id: UUID) -> HttpResponse:
        """Redirect to the job's page, or to its log if it is done or deleted."""
        try:
            table = type(find_job(id, router.db_for_read(self.model)))
        except JobNotFound:
            self.message_user(request, _("The job is done or deleted. This is what the log tells."), messages.INFO)
            return HttpResponseRedirect(f"{self.list_url(JobLog)}?{urlencode({'q': str(id)})}")
        url = f"admin:{table._meta.app_label}_{table._meta.model_name}_change"
        return HttpResponseRedirect(reverse(url, args=[id], current_app=self.admin_site.name))

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        """The page; a job that has moved to another table meanwhile is shown there."""
        id = search.as_uuid(unquote(object_id))
        if id and self.has_view_permission(request) and self.get_object(request, str(id)) is None:
            found = self._elsewhere(id)
            if found:
                return self.locate_view(request, id)
        return super().change_view(request, object_id, form_url, extra_context)

    def _elsewhere(self, id: UUID) -> bool:
        # In our own table it is hidden from this user: Django then says that it does not exist.
        try:
            return type(find_job(id, router.db_for_read(self.model))) is not self.model
        except JobNotFound:
            return True

    def delete_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        """Django's own delete page would not ask whether the job runs; the action on the job's page does."""
        return HttpResponseRedirect(self.page_url(UUID(unquote(object_id))))


def interventions(job: AbstractJob) -> QuerySet[LogEntry]:
    """What people did to the job through the admin, in whichever table it was then."""
    types = ContentType.objects.get_for_models(*JOB_TABLES).values()
    entries = LogEntry.objects.filter(object_id=str(job.pk), content_type__in=types)
    return entries.select_related("user").order_by("-action_time", "-pk")[:LOG_SHOWN]


_OVERVIEW = (
    ("handler_type", "id"),
    ("category", "priority", "process_instance_id"),
)
_ATTEMPTS = (("retries", "attempts", "retry_plan"), ("lost_runs", "conflicts"), ("start_time", "unknown_since"))
_EXECUTION = (
    ("lock_owner", "lock_expiration_time", "revision"),
    ("exclusive", "atomic", "timeout", "rank"),
    ("cancel_requested", "suspend_requested"),
)
_ORIGIN = (
    ("type", "repeat", "sequence_counter"),
    ("job_definition_id", "deployment_id", "tenant_id"),
    ("process_definition_key", "process_definition_id"),
    ("root_process_instance_id", "execution_id", "failed_activity_id"),
    ("correlation_id", "batch_id", "traceparent"),
)
