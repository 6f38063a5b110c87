"""Jobs that wait for a time."""

from __future__ import annotations

from django.contrib import admin

from jobexec.models import TimerJob

from ..common import filters, text_filters
from .actions import Cancel, Delete, Reencrypt, Reschedule, ResetRetries, RetryNow, SetPriority, Suspend
from .enqueue import Rerun
from .page import JobTableAdmin
from .repairs import ExecuteNow, MoveToDeadLetters, RecalculateDueDate


@admin.register(TimerJob)
class TimerJobAdmin(JobTableAdmin):
    """Timers and waiting retries, the next due first."""

    list_display = (
        "state_badge",
        "handler",
        "instance_link",
        "standing",
        "due",
        "tries",
    )
    list_filter = (
        filters.WaitingFilter,
        filters.CategoryFilter,
        filters.HandlerFilter,
        filters.DUE_DATE,
        filters.CREATE_TIME,
        text_filters.TenantFilter,
        text_filters.DefinitionKeyFilter,
    )
    sortable_by = ("due",)
    ordering = ("due_date", "id")
    actions = (
        Rerun(),
        RetryNow(),
        ExecuteNow(),
        ResetRetries(),
        Reschedule(),
        RecalculateDueDate(),
        SetPriority(),
        Suspend(),
        MoveToDeadLetters(),
        Reencrypt(),
        Cancel(),
        Delete(),
    )
