"""The executable jobs."""

from __future__ import annotations

from django.contrib import admin

from jobexec.models import Job

from . import filters
from .job_actions import Activate, Delete, Reschedule, ResetRetries, SetPriority, Suspend
from .job_page import JobTableAdmin


@admin.register(Job)
class JobAdmin(JobTableAdmin):
    """Jobs that may run now, newest first."""

    list_display = (
        "state_and_owner",
        "handler",
        "instance_link",
        "standing",
        "age",
        "tries",
        "exception",
    )
    list_filter = (
        filters.LockFilter,
        filters.CategoryFilter,
        filters.HandlerFilter,
        filters.CREATE_TIME,
        filters.PRIORITY,
    )
    sortable_by = ("age",)
    ordering = ("-id",)
    actions = (ResetRetries(), Suspend(), Activate(), Reschedule(), SetPriority(), Delete())
