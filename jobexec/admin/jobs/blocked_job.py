"""Jobs that wait for their resource."""

from __future__ import annotations

from django.contrib import admin

from jobexec.models import BlockedJob

from ..common import filters, text_filters
from .actions import Cancel, Delete, Reschedule, ResetRetries, SetPriority, Suspend
from .page import JobTableAdmin
from .repairs import ExecuteNow, MoveToDeadLetters


@admin.register(BlockedJob)
class BlockedJobAdmin(JobTableAdmin):
    """Jobs that are due and wait for a permit of their resource, in the order of their ranks."""

    list_display = ("state_badge", "handler", "resource", "instance_link", "standing", "age", "tries")
    list_filter = (
        text_filters.ResourceFilter,
        filters.CategoryFilter,
        filters.HandlerFilter,
        filters.CREATE_TIME,
        text_filters.TenantFilter,
        text_filters.DefinitionKeyFilter,
    )
    sortable_by = ("age",)
    ordering = ("resource", "rank", "id")
    actions = (
        ExecuteNow(),
        ResetRetries(),
        Reschedule(),
        SetPriority(),
        Suspend(),
        MoveToDeadLetters(),
        Cancel(),
        Delete(),
    )
