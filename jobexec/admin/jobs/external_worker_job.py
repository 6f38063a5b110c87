"""Jobs for external workers."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import admin
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from jobexec.models import ExternalWorkerJob

from ..common import display, filters, text_filters
from ..common.job_columns import state_badge
from . import external_filters
from .actions import Activate, Cancel, Delete, Reencrypt, Reschedule, ResetRetries, SetPriority, Suspend
from .enqueue import Rerun
from .page import JobTableAdmin
from .repairs import GiveBack, MoveToDeadLetters


@admin.register(ExternalWorkerJob)
class ExternalWorkerJobAdmin(JobTableAdmin):
    """Jobs that workers fetch or have fetched, newest first."""

    list_display = (
        "state_and_worker",
        "handler",
        "job_key",
        "instance_link",
        "available",
        "tries",
        "priority",
        "age",
    )
    list_filter = (
        external_filters.HoldFilter,
        external_filters.TypeFilter,
        external_filters.WorkerFilter,
        filters.CREATE_TIME,
        filters.PRIORITY,
        text_filters.TenantFilter,
        text_filters.DefinitionKeyFilter,
    )
    sortable_by = ("age",)
    ordering = ("-id",)
    own_columns = ("available_at", "leased")
    attempts_fields = (("retries", "attempts", "missed"),)
    readonly_fields: ClassVar[Any] = (*JobTableAdmin.readonly_fields, "leased", "missed")
    actions = (
        Rerun(),
        GiveBack(),
        ResetRetries(),
        Suspend(),
        Activate(),
        Reschedule(),
        SetPriority(),
        MoveToDeadLetters(),
        Reencrypt(),
        Cancel(),
        Delete(),
    )

    @admin.display(description=gettext_lazy("state, worker"))
    def state_and_worker(self, job: ExternalWorkerJob) -> SafeString:
        worker = job.lock_owner
        if worker is None:
            return state_badge(job)
        return format_html("{}<br>{}", state_badge(job), worker or _("unnamed worker"))

    @admin.display(description=gettext_lazy("deadline, or available"))
    def available(self, job: ExternalWorkerJob) -> str | SafeString:
        now = display.now(job)
        return display.relative(job.available_at, now) if job.available_at and job.available_at > now else _("now")

    @admin.display(description=gettext_lazy("missed deadlines"))
    def missed(self, job: ExternalWorkerJob) -> int:
        return job.lost_runs

    @admin.display(description=gettext_lazy("leased"))
    def leased(self, job: ExternalWorkerJob) -> str:
        """Whether a completion needs a lease token; the token itself is not shown."""
        return display.yes_or_no(job.lease_token)
