"""Executable jobs."""

from __future__ import annotations

from collections.abc import Sequence

from django.contrib import admin

from jobexec.models import Job, JobProgress

from ..common import filters, text_filters
from .actions import Activate, Cancel, Delete, Reencrypt, Reschedule, ResetRetries, SetPriority, Suspend
from .enqueue import EnqueueAdmin, Rerun
from .repairs import ExecuteNow, MoveToDeadLetters, Unlock


@admin.register(Job)
class JobAdmin(EnqueueAdmin):
    """Jobs that may run now, newest first."""

    list_display = (
        "state_and_owner",
        "handler",
        "instance_link",
        "standing",
        "age",
        "tries",
    )
    list_filter = (
        filters.LockFilter,
        filters.CategoryFilter,
        filters.HandlerFilter,
        filters.CREATE_TIME,
        filters.PRIORITY,
        text_filters.TenantFilter,
        text_filters.DefinitionKeyFilter,
    )
    own_columns = ("progress",)
    sortable_by = ("age",)
    ordering = ("-id",)
    actions = (
        Rerun(),
        ResetRetries(),
        Suspend(),
        Activate(),
        Reschedule(),
        SetPriority(),
        Unlock(),
        ExecuteNow(),
        MoveToDeadLetters(),
        Reencrypt(),
        Cancel(),
        Delete(),
    )

    def complete(self, rows: Sequence[Job]) -> None:
        """Add the progress of running jobs. A join would be part of the queryset that actions receive."""
        super().complete(rows)
        held = {row.pk: row for row in rows if row.locked}
        if not held:
            return
        said = JobProgress.objects.using(rows[0]._state.db).filter(job_id__in=held)
        for job_id, done, total in said.values_list("job_id", "done", "total"):
            held[job_id].progress_done, held[job_id].progress_total = done, total  # type: ignore[attr-defined]
