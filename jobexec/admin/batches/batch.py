"""Operations on very many jobs, and their progress."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from django.contrib import admin
from django.db.models import Q, QuerySet, Sum
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from jobexec.models import (
    JOB_TABLES,
    Batch,
    BatchFailure,
    BatchPart,
    BatchState,
    DeadLetterJob,
    Suspension,
    SuspensionScope,
)
from jobexec.models.batch import JOBS
from jobexec.operations.batches.control import batch_progress
from jobexec.operations.rows.tallies import states
from jobexec.redaction import redact_batch

from ..common import display, text_filters
from ..common.actions import Action
from ..common.base import TableAdmin
from ..common.permissions import OperationPermissions
from ..common.tenancy import COLUMN, tenants_of
from ..history.audit_log import interventions, sentence
from .actions import ActivateBatch, CancelBatch, DeleteBatch, RetryBatch, SealBatch, SuspendBatch
from .selection_words import words

FAILURES_SHOWN = 100
_KINDS = {
    BatchState.OPEN: "work",
    BatchState.SEEDING: "work",
    BatchState.RUNNING: "work",
    BatchState.COMPLETED: "ok",
    BatchState.FAILED: "bad",
    BatchState.CANCELLED: "off",
}


_ORIGIN = (
    gettext_lazy("Origin"),
    {"fields": (("started_by", "began_exactly", "ended_exactly"), ("tenant_id", "id"))},
)


class KindFilter(admin.SimpleListFilter):
    """Batches of jobs, or operations."""

    title = gettext_lazy("kind")
    parameter_name = "kind"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Any:
        return (("jobs", _("jobs of the project")), ("operations", _("actions of operators")))

    def queryset(self, request: HttpRequest, queryset: QuerySet[Batch]) -> QuerySet[Batch]:
        kinds = {"jobs": queryset.filter(type=JOBS), "operations": queryset.exclude(type=JOBS)}
        return kinds.get(self.value() or "", queryset)


@admin.register(Batch)
class BatchAdmin(OperationPermissions, TableAdmin):
    """Batches, the newest first, with their progress; users can suspend, activate, seal, retry and cancel them."""

    list_display = ("operation", "state_badge", "progress", "left_alone", "dead", "started_by", "began", "ended")
    list_display_links = ("operation",)
    list_filter = ("state", KindFilter, text_filters.TenantFilter)
    deferred = ("selection", "arguments")
    tenant_column = COLUMN
    search_fields = ("id__exact", "create_user__exact", "type__startswith", "name__startswith")
    search_help_text = gettext_lazy("An id, a user, or the beginning of the name of a batch or an operation.")
    sortable_by = ("began",)
    ordering = ("-create_time", "-id")
    actions = (SuspendBatch(), ActivateBatch(), SealBatch(), RetryBatch(), CancelBatch(), DeleteBatch())
    change_form_template = "admin/jobexec/batch_page.html"
    readonly_fields = (
        "operation",
        "state_badge",
        "progress",
        "began_exactly",
        "ended_exactly",
        "started_by",
        "asked",
        "meant",
        "own_jobs",
        "children",
        "follows",
        "figures",
    )
    fieldsets: ClassVar[Any] = (
        (None, {"fields": (("operation", "state_badge", "progress"), "figures", "meant", "asked", "own_jobs")}),
        _ORIGIN,
    )

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        if obj is None or not obj.of_jobs:
            return super().get_fieldsets(request, obj)
        first = ("operation", "state_badge", "progress")
        fields = (first, "figures", "children", "follows", "deadline", "own_jobs")
        return self.in_words([(None, {"fields": fields}), _ORIGIN])

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return request.user.has_perm("jobexec.delete_batch")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Batch]:
        """A batch without a tenant is visible to the user who started it: it is unknown whose jobs it changed."""
        tenants = tenants_of(request)
        rows: QuerySet[Batch] = self.all_rows(request)
        if tenants is None:
            return rows
        own = Q(tenant_id="", create_user=request.user.get_username())
        return rows.filter(Q(tenant_id__in=sorted(tenants - {""})) | own)

    def complete(self, rows: Sequence[Batch]) -> None:
        """Add the progress of parts that is not yet in the batch, and whether it is suspended: one query each."""
        # Jobs of a batch that is over may still end: running ones of a cancelled batch, and dead letters.
        going = {row.pk: row for row in rows if not row.over or row.of_jobs}
        if not going:
            return
        using = rows[0]._state.db
        for state in states(using or "default", [pk for pk, row in going.items() if row.of_jobs]):
            row, now = going[state.id], state.figures
            row.total, row.changed, row.failed, row.skipped = now.total, now.completed, now.failed, now.cancelled
        parts = BatchPart.objects.using(using).filter(batch_id__in=going, end_time__isnull=False).order_by()
        for id, changed, skipped in parts.values_list("batch_id").annotate(Sum("changed"), Sum("skipped")):
            going[id].changed += changed
            going[id].skipped += skipped
        instances = {row.process_instance_id: row for row in going.values()}
        held = Suspension.objects.using(using).filter(
            scope=SuspensionScope.PROCESS_INSTANCE, value__in=instances, live=True
        )
        for suspension in held:
            row = instances[suspension.value]
            row.held = suspension.in_force(display.now(row))  # type: ignore[attr-defined]

    def page_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        found = BatchFailure.objects.using(row._state.db).filter(batch_id=row.pk).order_by("pk")
        so_far = batch_progress(row)
        failures = list(found.values_list("job_id", "reason")[: FAILURES_SHOWN + 1])
        return {
            "failures": [
                {"job": display.job_link(job, self.admin_site.name), "reason": _(reason)}
                for job, reason in failures[:FAILURES_SHOWN]
            ],
            "more_failures": len(failures) > FAILURES_SHOWN,
            "failed_jobs": self._failed_jobs(request, row, so_far.failed_jobs),
            "stalled": so_far.stalled,
            "refreshes": not row.over,
            "row_actions": [
                action for action in self.permitted_actions(request) if _makes_sense(action, row, so_far.stalled)
            ],
            "interventions": [
                {"time": display.absolute(entry.timestamp), "who": entry.operator, "what": sentence(entry)}
                for entry in (interventions(row) if request.user.has_perm("jobexec.view_auditlog") else ())
            ],
        }

    def _failed_jobs(self, request: HttpRequest, batch: Batch, count: int) -> SafeString | None:
        """A link to its own jobs that are dead letters: the batch does not continue without them."""
        dead = self.admin_site._registry.get(DeadLetterJob)
        if batch.of_jobs or not count or dead is None or not dead.has_view_permission(request):
            return None
        return display.link(self.list_url(DeadLetterJob), count, q=batch.process_instance_id)

    @admin.display(description=gettext_lazy("batch"), ordering="type")
    def operation(self, batch: Batch) -> str:
        return batch.name or (_("jobs") if batch.of_jobs else batch.type.replace("_", " "))

    @admin.display(description=gettext_lazy("state"))
    def state_badge(self, batch: Batch) -> SafeString:
        badge = display.badge(_KINDS.get(BatchState(batch.state), "off"), batch.get_state_display())
        if not getattr(batch, "held", False):
            return badge
        return format_html("{} {}", badge, display.badge("warn", _("suspended")))

    @admin.display(description=gettext_lazy("progress"))
    def progress(self, batch: Batch) -> SafeString:
        bar = display.load(batch.changed + batch.skipped + batch.failed, batch.total)
        if batch.state not in (BatchState.SEEDING, BatchState.OPEN):
            return bar
        text = _("found so far") if batch.state == BatchState.SEEDING else _("added so far")
        return format_html('{}<span class="jobexec-beneath">{}</span>', bar, text)

    @admin.display(description=gettext_lazy("skipped"))
    def left_alone(self, batch: Batch) -> str:
        return display.number(batch.skipped)

    @admin.display(description=gettext_lazy("failed"))
    def dead(self, batch: Batch) -> str:
        return display.number(batch.failed) if batch.of_jobs else display.NONE

    @admin.display(description=gettext_lazy("job counts"))
    def figures(self, batch: Batch) -> str | SafeString:
        ended = {"completed": batch.changed, "failed": batch.failed, "cancelled": batch.skipped}
        counts = {**ended, "open": max(0, batch.total - sum(ended.values()))}
        values = {name: display.number(count) for name, count in counts.items()}
        if batch.of_jobs:
            return _("%(completed)s completed, %(failed)s failed, %(cancelled)s cancelled, %(open)s open") % values
        return _("%(completed)s changed, %(cancelled)s skipped, %(open)s open") % values

    @admin.display(description=gettext_lazy("its jobs"))
    def children(self, batch: Batch) -> str | SafeString:
        links = (
            display.link(self.list_url(table), table._meta.verbose_name_plural, batch_id=str(batch.pk))
            for table in JOB_TABLES
        )
        return format_html_join(" · ", "{}", ((link,) for link in links))

    @admin.display(description=gettext_lazy("follow-ups"))
    def follows(self, batch: Batch) -> str | SafeString:
        return display.json_text(redact_batch(batch)) if batch.arguments else display.NONE

    @admin.display(description=gettext_lazy("started by"))
    def started_by(self, batch: Batch) -> str:
        return batch.create_user or display.NONE

    @admin.display(description=gettext_lazy("began"), ordering="create_time")
    def began(self, batch: Batch) -> str | SafeString:
        return display.relative(batch.create_time, display.now(batch))

    @admin.display(description=gettext_lazy("ended"))
    def ended(self, batch: Batch) -> str | SafeString:
        return display.relative(batch.end_time, display.now(batch))

    @admin.display(description=gettext_lazy("began"))
    def began_exactly(self, batch: Batch) -> str | SafeString:
        return display.exact(batch.create_time, display.now(batch))

    @admin.display(description=gettext_lazy("ended"))
    def ended_exactly(self, batch: Batch) -> str | SafeString:
        return display.exact(batch.end_time, display.now(batch))

    @admin.display(description=gettext_lazy("arguments"))
    def asked(self, batch: Batch) -> str | SafeString:
        return display.lines([f"{name}: {value}" for name, value in batch.arguments.items() if value is not None])

    @admin.display(description=gettext_lazy("selection"))
    def meant(self, batch: Batch) -> str:
        return words(batch.selection)

    @admin.display(description=gettext_lazy("jobs that carry it out"))
    def own_jobs(self, batch: Batch) -> str | SafeString:
        links = (
            display.link(self.list_url(table), table._meta.verbose_name_plural, q=batch.process_instance_id)
            for table in JOB_TABLES
        )
        return format_html_join(" · ", "{}", ((link,) for link in links))


def _makes_sense(action: Action, batch: Batch, stalled: bool) -> bool:
    """Whether to offer the action on the page: finished batches can only be deleted, or what failed retried.

    Activate also restores the job that carries on a batch that has ``stalled``.
    """
    if isinstance(action, SealBatch):
        return batch.state == BatchState.OPEN
    if isinstance(action, RetryBatch):
        return batch.of_jobs and batch.failed > 0 and batch.state != BatchState.CANCELLED
    held = getattr(batch, "held", False)
    if isinstance(action, SuspendBatch) and (batch.of_jobs or held):
        return False
    if isinstance(action, ActivateBatch) and not (held or stalled):
        return False
    return isinstance(action, DeleteBatch) or not batch.over
