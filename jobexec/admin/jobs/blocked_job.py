"""Jobs that wait for a message or for their resource."""

from __future__ import annotations

from django.contrib import admin
from django.utils.translation import gettext_lazy

from jobexec.models import BlockedJob

from ..common import filters, text_filters
from ..messages.actions import PublishMessage
from .actions import Cancel, Delete, EndWait, Reencrypt, Reschedule, ResetRetries, SetPriority, Suspend
from .enqueue import Rerun
from .page import JobTableAdmin
from .repairs import ExecuteNow, MoveToDeadLetters


class WaitFilter(filters.YesNoFilter):
    """The resource or message that the jobs wait for."""

    title = gettext_lazy("waits for")
    parameter_name = "waits"
    choice_labels = (("message", gettext_lazy("A message")), ("resource", gettext_lazy("Its resource")))
    conditions = {
        "message": {"waits_for_key__isnull": False},
        "resource": {"waits_for": None},
    }


@admin.register(BlockedJob)
class BlockedJobAdmin(JobTableAdmin):
    """Jobs that wait for a message, or are due and wait for a permit of their resource, in the order of their ranks."""

    own_columns = ("next_look",)
    list_display = ("state_badge", "handler", "waits", "instance_link", "standing", "age", "tries")
    list_filter = (
        WaitFilter,
        text_filters.WaitsForFilter,
        text_filters.WaitsForKeyFilter,
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
        Rerun(),
        PublishMessage(),
        EndWait(),
        ExecuteNow(),
        ResetRetries(),
        Reschedule(),
        SetPriority(),
        Suspend(),
        MoveToDeadLetters(),
        Reencrypt(),
        Cancel(),
        Delete(),
    )
