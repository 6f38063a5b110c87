"""Groups of similar failures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from jobexec.models import Batch, DeadLetterJob, FailureGroup, JobLog
from jobexec.operations.batches.control import start_batch

from ..common import display
from ..common.actions import Action, Outcome
from ..common.base import FROM_PAGE, TableAdmin
from ..common.forms import RetriesForm
from ..common.paging import CappedCount
from ..common.permissions import OperationPermissions


class RequeueGroup(Action):
    """Requeue all dead letters of groups, with one batch per group."""

    name, permission = "requeue", "requeue"
    description = gettext_lazy("Requeue the dead letters of selected %(verbose_name_plural)s…")
    label = gettext_lazy("Requeue its dead letters…")
    form_class = RetriesForm
    warning = gettext_lazy("A batch requeues all jobs that are dead letters because of these failures.")
    name_column = "handler_type"

    def jobs(self, queryset: QuerySet[Any]) -> QuerySet[Any]:
        groups = list(queryset.values_list("pk", flat=True))
        return DeadLetterJob.objects.using(queryset.db).filter(fingerprint__in=groups)

    def applies(self, row: Any) -> bool:
        return DeadLetterJob.objects.using(row._state.db).filter(fingerprint=row.pk).exists()

    def perform_for(
        self, request: HttpRequest, queryset: QuerySet[Any], using: str, data: Mapping[str, Any]
    ) -> Outcome:
        outcome = Outcome()
        for fingerprint in list(queryset.values_list("pk", flat=True)):
            dead = DeadLetterJob.objects.using(using).filter(fingerprint=fingerprint)
            if not dead.exists():
                outcome.skipped[fingerprint] = _("none of its jobs is a dead letter")
                continue
            user = request.user.get_username()
            start_batch("requeue", dead, arguments=dict(data), using=using, user=user)
            outcome.changed.append(fingerprint)
        return outcome

    def done(self, count: int, data: Mapping[str, Any]) -> str:
        text = ngettext(
            "A batch requeues the dead letters of %(count)d group with %(retries)d retries.",
            "Batches requeue the dead letters of %(count)d groups with %(retries)d retries.",
            count,
        )
        return text % {"count": count, **data}

    def respond(self, modeladmin: TableAdmin, request: HttpRequest) -> HttpResponse | None:
        batches = modeladmin.admin_site._registry.get(Batch)
        if FROM_PAGE in request.POST and batches is not None and batches.has_view_permission(request):
            return HttpResponseRedirect(modeladmin.list_url(Batch))
        return super().respond(modeladmin, request)


@admin.register(FailureGroup)
class FailureGroupAdmin(OperationPermissions, TableAdmin):
    """Groups, the latest failures first, with links to their dead letters."""

    list_display = ("handler", "exception", "text", "count", "last", "first", "dead_letters")
    list_display_links = ("handler",)
    search_fields = ("fingerprint__exact", "handler_type__startswith", "exception__startswith")
    search_help_text = gettext_lazy("A fingerprint, or the beginning of the name of a handler or an exception.")
    sortable_by = ("last",)
    ordering = ("-last_time", "fingerprint")
    actions = (RequeueGroup(),)
    readonly_fields = ("message_text", "stack", "latest", "last", "first", "dead_letter_count")

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        registered = self.admin_site._registry
        sources = [registered[table] for table in (JobLog, DeadLetterJob) if table in registered]
        # The stack trace belongs to a job: users need the permission to view its source.
        stack = ("stack",) if sources and all(source.has_view_permission(request) for source in sources) else ()
        return [
            (None, {"fields": ("handler_type", "exception", ("count", "first", "last"), "dead_letter_count")}),
            (gettext_lazy("Latest failure"), {"fields": ("latest", "message_text", *stack)}),
            (None, {"fields": ("fingerprint",)}),
        ]

    @admin.display(description=gettext_lazy("handler"), ordering="handler_type")
    def handler(self, group: FailureGroup) -> SafeString:
        return display.handler(group.handler_type)

    @admin.display(description=gettext_lazy("latest message"))
    def text(self, group: FailureGroup) -> str | SafeString:
        return display.shortened(group.message, 60)

    @admin.display(description=gettext_lazy("last"), ordering="last_time")
    def last(self, group: FailureGroup) -> str | SafeString:
        return display.relative(group.last_time, display.now(group))

    @admin.display(description=gettext_lazy("first"))
    def first(self, group: FailureGroup) -> str | SafeString:
        return display.relative(group.first_time, display.now(group))

    @admin.display(description=gettext_lazy("dead letters"))
    def dead_letters(self, group: FailureGroup) -> SafeString:
        return display.link(self.list_url(DeadLetterJob), _("dead letters"), fingerprint=group.fingerprint)

    @admin.display(description=gettext_lazy("dead letters"))
    def dead_letter_count(self, group: FailureGroup) -> SafeString:
        count = CappedCount.of(DeadLetterJob.objects.using(group._state.db).filter(fingerprint=group.fingerprint))
        return format_html(
            "{} ({})", count, display.link(self.list_url(DeadLetterJob), _("show them"), fingerprint=group.fingerprint)
        )

    @admin.display(description=gettext_lazy("job"))
    def latest(self, group: FailureGroup) -> str | SafeString:
        if group.job_id is None:
            return display.NONE
        return display.job_link(group.job_id, self.admin_site.name)

    @admin.display(description=gettext_lazy("message"))
    def message_text(self, group: FailureGroup) -> str | SafeString:
        return display.pre(group.message)

    @admin.display(description=gettext_lazy("stack trace"))
    def stack(self, group: FailureGroup) -> str | SafeString:
        """From the log of the latest job, or from a dead letter if there is no log."""
        if group.job_id is None:
            return display.NONE
        log = JobLog.objects.using(group._state.db).filter(job_id=group.job_id, fingerprint=group.fingerprint)
        dead = DeadLetterJob.objects.using(group._state.db).filter(fingerprint=group.fingerprint)
        for rows in (log.order_by("-timestamp", "-pk"), dead.order_by("-died_at", "-pk")):
            stack = rows.values_list("exception_stack", flat=True).first()
            if stack:
                return display.stack_trace(stack)
        return display.NONE
