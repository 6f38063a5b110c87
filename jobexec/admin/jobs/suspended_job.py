"""Jobs that do not run until they are activated."""

from __future__ import annotations

from django.contrib import admin
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from jobexec.models import SuspendedJob

from ..common import display, filters, text_filters
from .actions import Activate, Cancel, Delete, Reencrypt, Reschedule, ResetRetries, SetPriority, Suspend
from .enqueue import Rerun
from .page import JobTableAdmin
from .repairs import MoveToDeadLetters, RecalculateDueDate


@admin.register(SuspendedJob)
class SuspendedJobAdmin(JobTableAdmin):
    """Suspended jobs, the latest first."""

    list_display = (
        "handler",
        "instance_link",
        "standing",
        "suspended",
        "due",
        "tries",
    )
    list_filter = (
        filters.CategoryFilter,
        filters.HandlerFilter,
        filters.SUSPENDED_AT,
        filters.DUE_DATE,
        text_filters.TenantFilter,
        text_filters.DefinitionKeyFilter,
    )
    sortable_by = ("suspended",)
    ordering = ("-suspended_at", "-id")
    own_columns = ("suspended_at",)
    actions = (
        Rerun(),
        Activate(),
        Suspend(),
        ResetRetries(),
        Reschedule(),
        RecalculateDueDate(),
        SetPriority(),
        MoveToDeadLetters(),
        Reencrypt(),
        Cancel(),
        Delete(),
    )

    @admin.display(description=_("suspended"), ordering="suspended_at")
    def suspended(self, job: SuspendedJob) -> str | SafeString:
        return display.relative(job.suspended_at, display.now(job))
