"""The base of the job tables' admins: the list with its tabs, and the page of one job."""

from __future__ import annotations

from typing import Any, ClassVar
from urllib.parse import urlencode

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.decorators import method_decorator
from django.utils.translation import gettext_lazy, pgettext_lazy
from django.views.decorators.debug import sensitive_post_parameters

from jobexec.models import BATCH_HANDLERS, JOB_TABLES, AbstractJob, JobLog
from jobexec.redaction import load_calls

from ..common import display, search
from ..common.job_columns import JobColumns
from ..common.paging import CappedCount
from ..common.permissions import OperationPermissions
from ..common.tenancy import COLUMN, is_restricted
from .location import LocatedAdmin
from .revealed import offer_to_reveal
from .story import Story, story_of
from .surroundings import Surroundings


class JobTableAdmin(JobColumns, OperationPermissions, search.IndexedSearch, LocatedAdmin):
    """A job table: tabs above the list, buttons and history on the page of a job."""

    own_columns: ClassVar[tuple[str, ...]] = ()
    """Columns that only this table has."""

    tenant_column = COLUMN
    deferred = ("handler_configuration", "custom_headers", "exception_stack", "message")
    search_fields = ("id",)
    search_help_text = search.HELP
    list_display_links = ("handler",)
    change_list_template = "admin/jobexec/job_list.html"
    change_form_template = "admin/jobexec/job_page.html"
    readonly_fields: ClassVar[Any] = (
        "state_badge",
        "progress",
        "exception_text",
        "stack",
        "arguments",
        "headers",
        "received",
    )

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return request.user.has_perm(f"jobexec.delete_{self.opts.model_name}")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        queryset = super().get_queryset(request)
        # A batch's own jobs have no tenant, and their arguments may name jobs of any tenant.
        return queryset.exclude(handler_type__in=BATCH_HANDLERS) if is_restricted(request) else queryset

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        row = super().get_object(request, object_id, from_field)
        if row is not None and request.method == "GET" and self.has_reveal_permission(request):
            offer_to_reveal(request, row)
        return row

    # The list.

    @method_decorator(sensitive_post_parameters())  # the arguments of a job that is run again
    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        tabs = self._tabs(request) if request.method == "GET" else []
        return super().changelist_view(request, {"tabs": tabs, **(extra_context or {})})

    def _tabs(self, request: HttpRequest) -> list[dict[str, Any]]:
        """One tab per job table that the user may see, with the number of matches: a job may be in any table."""
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

    #: The fields about attempts.
    attempts_fields: ClassVar[Any] = (
        ("retries", "attempts", "retry_plan"),
        ("lost_runs", "conflicts", "snoozes"),
        ("start_time", "unknown_since"),
    )

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        failed = obj is None or obj.exception_message or obj.exception_stack
        # What has happened to a healthy job is in its timeline.
        folded = [] if failed or obj.lost_runs or obj.unknown_since else ["collapse"]
        # Few jobs have these, so most pages need not show that they are empty.
        key, resource = ([name] if obj is None or getattr(obj, name) else [] for name in ("job_key", "resource"))
        overview = [
            ("state_badge", *self.own_columns, "due_date", "create_time"),
            ("handler_type", "id", *key),
            ("category", "priority", "process_instance_id", *resource),
        ]
        fieldsets = [
            (None, {"fields": overview}),
            *([(gettext_lazy("Last exception"), {"fields": ["exception_text", "stack"]})] if failed else []),
            *(
                [(pgettext_lazy("for jobs that wait", "Message"), {"fields": _MESSAGE})]
                if obj is None or obj.waits_for or obj.message
                else []
            ),
            (gettext_lazy("Arguments"), {"fields": ["arguments", "headers"]}),
            (gettext_lazy("Attempts"), {"fields": self.attempts_fields, "classes": [_BELOW, *folded]}),
            (gettext_lazy("Execution"), {"fields": _EXECUTION, "classes": [_BELOW, *folded]}),
            (gettext_lazy("Origin"), {"fields": self._origin(), "classes": [_BELOW, "collapse"]}),
            (gettext_lazy("Internals"), {"fields": _INTERNALS, "classes": [_BELOW, "collapse"]}),
        ]
        return self.in_words(fieldsets)

    def _origin(self) -> Any:
        alike = (("fingerprint", "lost_key"),) if self.opts.model_name == "deadletterjob" else ()
        return (*_ORIGIN, *alike)

    def page_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        call = load_calls([row], row._state.db or "default").get(row.pk, row.handler_type)
        heading = {"subtitle": display.cut(call, display.LONGEST_CALL)}
        return {**heading, "story": self._story(request, row), **Surroundings(self, request, row).context()}

    def _story(self, request: HttpRequest, job: AbstractJob) -> Story:
        log_admin = self.other(JobLog, request)
        log = None if log_admin is None else log_admin.get_queryset(request)
        audited = request.user.has_perm("jobexec.view_auditlog")
        return story_of(job, log, f"{self.list_url(JobLog)}?{urlencode({'q': str(job.pk)})}", audited=audited)


_BELOW = "jobexec-below"
"""The CSS class of fieldsets that the template shows below the timeline."""
_MESSAGE = (("waits_for", "waits_for_key", "waits_until"), "received")
_EXECUTION = (
    ("lock_owner", "lock_expiration_time"),
    ("exclusive", "atomic", "timeout", "expires_at"),
    ("cancel_requested", "suspend_requested"),
)
_INTERNALS = (("revision", "rank", "sequence_counter"),)
_ORIGIN = (
    ("type", "repeat"),
    ("job_definition_id", "deployment_id", "tenant_id"),
    ("process_definition_key", "process_definition_id"),
    ("root_process_instance_id", "execution_id", "failed_activity_id"),
    ("correlation_id", "batch_id", "traceparent"),
    ("task_backend",),
)
