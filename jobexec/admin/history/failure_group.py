"""Groups of similar failures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from django.contrib import admin
from django.contrib.auth import get_user_model
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.formats import number_format
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext, ngettext_lazy

from jobexec import clock, operations
from jobexec.models import Batch, DeadLetterJob, FailureGroup, JobLog
from jobexec.operations.batches.control import start_batch
from jobexec.operations.manage import failure_group_words
from jobexec.operations.reports.failure_groups import dead_letters_by_group, quiet_groups
from jobexec.operations.targets.for_each import OperationResult

from ..common import display
from ..common.actions import Action, Outcome
from ..common.base import FROM_PAGE, TableAdmin
from ..common.forms import AssignForm, RetriesForm, SnoozeForm
from ..common.paging import CappedCount
from ..common.permissions import OperationPermissions
from ..common.search import HandlerSearch

USERS_OFFERED = 200


class RequeueGroup(Action):
    """Requeue all dead letters of groups, with one batch per group."""

    name, permission = "requeue", "requeue"
    description = gettext_lazy("Requeue the dead letters of selected %(verbose_name_plural)s…")
    label = gettext_lazy("Requeue its dead letters…")
    form_class = RetriesForm
    warning = gettext_lazy("A batch requeues all jobs that are dead letters because of these failures.")
    name_column = "handler_type"
    report = ngettext_lazy(
        "A batch requeues the dead letters of %(count)d group with %(retries)d retries.",
        "Batches requeue the dead letters of %(count)d groups with %(retries)d retries.",
        "count",
    )

    def jobs(self, queryset: QuerySet[Any]) -> list[QuerySet[Any]]:
        groups = list(queryset.values_list("pk", flat=True))
        return [DeadLetterJob.objects.using(queryset.db).filter(fingerprint__in=groups)]

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

    def respond(self, modeladmin: TableAdmin, request: HttpRequest) -> HttpResponse | None:
        batches = modeladmin.admin_site._registry.get(Batch)
        if FROM_PAGE in request.POST and batches is not None and batches.has_view_permission(request):
            return HttpResponseRedirect(modeladmin.list_url(Batch))
        return super().respond(modeladmin, request)


class GroupAction(Action):
    """A decision about groups of failures, all of them in one transaction."""

    permission = "manage_group"
    name_column = "handler_type"

    def perform(self, queryset: QuerySet[Any], using: str, data: Mapping[str, Any]) -> Outcome:
        result = self.decide(list(queryset.values_list("pk", flat=True)), using, data)
        return Outcome(list(result.changed), {key: _(reason) for key, reason in result.skipped.items()})

    def decide(self, groups: list[str], using: str, data: Mapping[str, Any]) -> OperationResult:
        """Call the operation."""
        raise NotImplementedError


class Assign(GroupAction):
    """Assign groups to a user."""

    name = "assign"
    description = gettext_lazy("Assign selected %(verbose_name_plural)s to a user…")
    label = gettext_lazy("Assign…")
    form_class = AssignForm

    def choices(self, using: str) -> list[str]:
        users = get_user_model()
        names = users._default_manager.filter(is_active=True, is_staff=True).order_by(users.USERNAME_FIELD)
        return list(names.values_list(users.USERNAME_FIELD, flat=True)[:USERS_OFFERED])

    def initial(self, queryset: QuerySet[Any]) -> dict[str, Any]:
        names = list(queryset.order_by().values_list("assigned_to", flat=True)[:2])
        return {"assigned_to": names[0]} if len(names) == 1 else {}

    def decide(self, groups: list[str], using: str, data: Mapping[str, Any]) -> OperationResult:
        return operations.assign_failure_groups(groups, using=using, **data)

    def done(self, count: int, data: Mapping[str, Any]) -> str:
        return failure_group_words.assigned(count, data["assigned_to"])


class Acknowledge(GroupAction):
    """Keep groups quiet until they are reopened."""

    name = "acknowledge"
    description = gettext_lazy("Acknowledge selected %(verbose_name_plural)s")
    label = gettext_lazy("Acknowledge")

    def applies(self, row: Any) -> bool:
        return row.acknowledged_at is None

    def decide(self, groups: list[str], using: str, data: Mapping[str, Any]) -> OperationResult:
        return operations.acknowledge_failure_groups(groups, using=using)

    def done(self, count: int, data: Mapping[str, Any]) -> str:
        return failure_group_words.acknowledged(count)


class Snooze(GroupAction):
    """Keep groups quiet for a while."""

    name = "snooze"
    description = gettext_lazy("Snooze selected %(verbose_name_plural)s…")
    label = gettext_lazy("Snooze…")
    form_class = SnoozeForm
    warning = gettext_lazy(
        "Until then, the dashboard does not report them as a problem and no alerts are sent. Their jobs still fail."
    )

    def decide(self, groups: list[str], using: str, data: Mapping[str, Any]) -> OperationResult:
        return operations.snooze_failure_groups(groups, using=using, **data)

    def done(self, count: int, data: Mapping[str, Any]) -> str:
        return failure_group_words.snoozed(count)


class Reopen(GroupAction):
    """End an acknowledgement or a snooze."""

    name = "reopen"
    description = gettext_lazy("Reopen selected %(verbose_name_plural)s")
    label = gettext_lazy("Reopen")

    def applies(self, row: Any) -> bool:
        return bool(row.quiet(display.now(row)))

    def decide(self, groups: list[str], using: str, data: Mapping[str, Any]) -> OperationResult:
        return operations.reopen_failure_groups(groups, using=using)

    def done(self, count: int, data: Mapping[str, Any]) -> str:
        return failure_group_words.reopened(count)


class AttentionFilter(admin.SimpleListFilter):
    """Whether a group is quiet now, and whose it is."""

    title = gettext_lazy("attention")
    parameter_name = "attention"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [
            ("needed", gettext_lazy("Needed")),
            ("quiet", gettext_lazy("Snoozed or acknowledged")),
            ("mine", gettext_lazy("Assigned to me")),
        ]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        quiet = quiet_groups(clock.now(queryset.db))
        conditions = {"needed": ~quiet, "quiet": quiet, "mine": Q(assigned_to=request.user.get_username())}
        return queryset.filter(conditions.get(self.value() or "", Q()))


def standing_badge(group: FailureGroup, now: datetime) -> SafeString:
    """Whether the group needs attention, as a badge."""
    if group.acknowledged_at is not None:
        return display.badge("ok", _("acknowledged"))
    return display.badge("off", _("snoozed")) if group.snoozed(now) else display.badge("warn", _("open"))


def _quiet_line(text: Any) -> SafeString:
    return format_html('<span class="jobexec-quiet jobexec-line">{}</span>', text)


@admin.register(FailureGroup)
class FailureGroupAdmin(OperationPermissions, HandlerSearch):
    """Groups, the latest failures first, with links to their dead letters."""

    list_display = ("group_title", "text", "standing", "count", "last", "first", "dead_letters")
    list_display_links = ("group_title",)
    list_filter = (AttentionFilter,)
    search_fields = ("fingerprint__exact", "exception__startswith")
    search_help_text = gettext_lazy(
        "A fingerprint, or the beginning of a handler's full or short name (charge_card) or of the name of an "
        "exception."
    )
    sortable_by = ("last",)
    ordering = ("-last_time", "fingerprint")
    actions = (RequeueGroup(), Assign(), Acknowledge(), Snooze(), Reopen())
    readonly_fields = ("message_text", "stack", "latest", "last", "first", "dead_letter_count", "standing")

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        registered = self.admin_site._registry
        sources = [registered[table] for table in (JobLog, DeadLetterJob) if table in registered]
        # The stack trace belongs to a job: users need the permission to view its source.
        stack = ("stack",) if sources and all(source.has_view_permission(request) for source in sources) else ()
        return [
            (
                None,
                {"fields": ("handler_type", "exception", ("count", "first", "last"), "dead_letter_count", "standing")},
            ),
            (gettext_lazy("Latest failure"), {"fields": ("latest", "message_text", *stack)}),
            (None, {"fields": ("fingerprint",)}),
        ]

    def complete_shown(self, request: HttpRequest, rows: Sequence[Any]) -> None:
        super().complete_shown(request, rows)
        counts = dead_letters_by_group(rows[0]._state.db or "default", [row.pk for row in rows]) if rows else {}
        for row in rows:
            row.dead = counts[row.pk]

    @admin.display(description=gettext_lazy("group"))
    def group_title(self, group: FailureGroup) -> SafeString:
        """The title, and under the pointer the full names."""
        names = ": ".join(filter(None, (group.handler_type, group.exception)))
        return format_html('<span title="{}">{}</span>', names, group)

    @admin.display(description=gettext_lazy("attention"))
    def standing(self, group: FailureGroup) -> SafeString:
        """Whether it is quiet, until when, and the user who deals with it."""
        now = display.now(group)
        lines = [standing_badge(group, now)]
        if group.acknowledged_at is not None:
            lines.append(_quiet_line(display.relative(group.acknowledged_at, now)))
        elif group.snoozed(now):
            if group.snoozed_until is not None:
                lines.append(_quiet_line(_("until %(time)s") % {"time": display.absolute(group.snoozed_until)}))
            if group.snoozed_to_count is not None:
                left = max(0, group.snoozed_to_count - group.count)
                text = ngettext("or for %(count)s more failure", "or for %(count)s more failures", left)
                if group.snoozed_until is None:
                    text = ngettext("for %(count)s more failure", "for %(count)s more failures", left)
                lines.append(_quiet_line(text % {"count": number_format(left, force_grouping=True)}))
        if group.assigned_to:
            lines.append(display.badge("person", group.assigned_to))
        return format_html_join(SafeString("<br>"), "{}", ((line,) for line in lines))

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
        count = vars(group)["dead"]
        if not count:
            return format_html('<span class="jobexec-quiet">{}</span>', count)
        return display.link(self.list_url(DeadLetterJob), count, fingerprint=group.fingerprint)

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
