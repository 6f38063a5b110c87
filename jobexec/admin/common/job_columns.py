"""The columns and fields of the job tables."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any
from uuid import UUID

from django.contrib import admin
from django.contrib.admin import AdminSite
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from jobexec.models import (
    JOB_TABLES,
    AbstractJob,
    BlockedJob,
    DeadLetterJob,
    ExternalWorkerJob,
    Job,
    SuspendedJob,
    TimerJob,
)
from jobexec.operations.targets.lookup import find_states
from jobexec.operations.values.messages import shown_message
from jobexec.redaction import calls_among, calls_of, redact, redact_job, with_short_arguments
from jobexec.sensitive import hide

from . import display
from .base import TableAdmin
from .page_links import instance_link


class CallColumn(TableAdmin):
    """A list whose rows are distinguished by their calls."""

    def to_show(self, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return with_short_arguments(queryset)

    def complete(self, rows: Sequence[Any]) -> None:
        super().complete(rows)
        listed = [row for row in rows if "short_arguments" in vars(row)]
        for row, call in calls_of(listed, rows[0]._state.db or "default") if listed else ():
            row.call = call

    @admin.display(description=gettext_lazy("call"))
    def handler(self, row: Any) -> SafeString:
        exception = getattr(row, "exception_message", "")
        return display.call(row.handler_type, row.call, row.tenant_id, exception)


def visible_calls(request: HttpRequest, site: AdminSite, ids: Collection[UUID], using: str) -> dict[UUID, str]:
    """The calls of jobs in whatever tables they are, without those that the user may not view and those that are gone.

    At most one statement to find them, one for each table in which there are some, and those of :func:`calls_of`.
    """
    admins = {table: site._registry.get(table) for table in JOB_TABLES}
    visible = {
        table: found
        for table, found in admins.items()
        if isinstance(found, TableAdmin) and found.has_view_permission(request)
    }
    ids_in: dict[type[AbstractJob], list[UUID]] = {}
    for id, table in find_states(ids, using).items() if ids and visible else ():
        if table in visible:
            ids_in.setdefault(table, []).append(id)
    rows = (visible[table].get_queryset(request).using(using).filter(pk__in=found) for table, found in ids_in.items())
    return calls_among(rows, using)


class JobColumns(CallColumn):
    """Methods for ``list_display`` and ``readonly_fields``; mixed into the admin of each job table."""

    def told_apart(self, rows: Sequence[Any], using: str) -> Sequence[Any]:
        calls = calls_among([self.model._base_manager.using(using).filter(pk__in=[row.pk for row in rows])], using)
        return [f"{display.cut(calls.get(row.pk, row.handler_type), display.LONGEST_CALL)} · {row.pk}" for row in rows]

    @admin.display(description=gettext_lazy("state"))
    def state_badge(self, job: AbstractJob) -> SafeString:
        return state_badge(job)

    @admin.display(description=gettext_lazy("category"))
    def standing(self, job: AbstractJob) -> SafeString:
        if not job.priority:
            return format_html("{}", job.category)
        quiet = _("priority %(priority)d") % {"priority": job.priority}
        return format_html('{}<br><span class="jobexec-quiet">{}</span>', job.category, quiet)

    @admin.display(description=gettext_lazy("process instance"), empty_value=display.NONE)
    def instance_link(self, job: AbstractJob) -> SafeString | str | None:
        return instance_link(self.admin_site.name, job.process_instance_id, job.tenant_id)

    @admin.display(description=gettext_lazy("due"), ordering="due_date")
    def due(self, job: AbstractJob) -> str | SafeString:
        return display.relative(job.due_date, display.now(job))

    @admin.display(description=gettext_lazy("retries"))
    def tries(self, job: AbstractJob) -> SafeString:
        made = _("%(made)d made") % {"made": job.attempts}
        left = _("%(left)d left") % {"left": job.retries}
        return format_html(
            '<span class="jobexec-line">{}</span><br><span class="jobexec-line jobexec-quiet">{}</span>', left, made
        )

    # Ids are ordered by time, so the primary key sorts by age.
    @admin.display(description=gettext_lazy("age"), ordering="-id")
    def age(self, job: AbstractJob) -> SafeString:
        return display.age(job.create_time, display.now(job))

    @admin.display(description=gettext_lazy("state, lock owner"))
    def state_and_owner(self, job: AbstractJob) -> SafeString:
        owner = display.lock_owner(job.lock_owner)
        said = progress_of(job)
        if said is None:
            return format_html("{}<br>{}", state_badge(job), owner)
        return format_html("{} {}<br>{}", state_badge(job), said, owner)

    @admin.display(description=gettext_lazy("progress"))
    def progress(self, job: AbstractJob) -> SafeString | str:
        return progress_of(job) or display.NONE

    @admin.display(description=gettext_lazy("last exception"))
    def exception_text(self, job: AbstractJob) -> str | SafeString:
        return display.pre(job.exception_message)

    @admin.display(description=gettext_lazy("stack trace"))
    def stack(self, job: AbstractJob) -> str | SafeString:
        return display.stack_trace(job.exception_stack)

    @admin.display(description=gettext_lazy("arguments"))
    def arguments(self, job: AbstractJob) -> str | SafeString:
        revealed = vars(job).get("revealed")
        if revealed is not None:
            return display.json_text(redact(job.handler_type, revealed, job._state.db))
        shown = display.json_text(arguments_of(job))
        if "offers_to_reveal" not in vars(job):
            return shown
        return format_html('{} <a href="?reveal=1">{}</a>', shown, _("Show decrypted; the audit log records it"))

    @admin.display(description=gettext_lazy("waits for"))
    def waits(self, job: AbstractJob) -> SafeString | str:
        """The message, with its key, or the resource."""
        if job.waits_for is None:
            return job.resource or display.NONE
        return format_html('{}<br><span class="jobexec-quiet">{}</span>', job.waits_for, job.waits_for_key)

    @admin.display(description=gettext_lazy("received message"))
    def received(self, job: AbstractJob) -> str | SafeString:
        return display.NONE if job.message is None else display.json_text(shown_message(job.message))

    @admin.display(description=gettext_lazy("headers"))
    def headers(self, job: AbstractJob) -> str | SafeString:
        return display.json_text(hide(job.custom_headers))


def state_badge(job: AbstractJob) -> SafeString:
    """The most important fact about the state of a job, as a badge."""
    if isinstance(job, DeadLetterJob):
        return display.badge("bad", _("dead letter"))
    if isinstance(job, SuspendedJob):
        return display.badge("off", _("suspended"))
    if isinstance(job, TimerJob):
        return display.badge("warn", _("waiting for retry")) if job.attempts else display.badge("wait", _("timer"))
    if isinstance(job, BlockedJob):
        return display.badge("wait", _("blocked") if job.waits_for is None else _("waits for message"))
    if isinstance(job, ExternalWorkerJob):
        return _badge_of_external(job)
    assert isinstance(job, Job)
    return _badge_of_executable(job)


def _badge_of_external(job: ExternalWorkerJob) -> SafeString:
    if job.cancel_requested:
        return display.badge("warn", _("being cancelled"))
    if job.suspend_requested:
        return display.badge("off", _("to be suspended"))
    if job.locked:
        return display.badge("work", _("with a worker"))
    if job.available_at is not None and job.available_at > display.now(job):
        return display.badge("warn", _("backing off")) if job.exception_message else display.badge("wait", _("waiting"))
    if job.lock_owner is not None:
        return display.badge("warn", _("deadline missed"))
    return display.badge("ok", _("available"))


def _badge_of_executable(job: Job) -> SafeString:
    if job.locked and job.cancel_requested:
        return display.badge("warn", _("being cancelled"))
    if job.suspend_requested:
        return display.badge("off", _("to be suspended"))
    if job.locked:
        return display.badge("work", _("in progress"))
    return display.badge("ok", _("executable"))


def progress_of(job: AbstractJob) -> SafeString | None:
    """The progress that the running job has reported; None if it has reported none."""
    done, total = getattr(job, "progress_done", None), getattr(job, "progress_total", None)
    if done is None or not job.locked:
        return None
    return display.load(done, total) if total else format_html("{}", _("%d done") % done)


def arguments_of(job: AbstractJob) -> Any:
    """The arguments to show, without sensitive values."""
    return redact_job(job)
