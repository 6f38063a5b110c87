"""The executable jobs."""

from __future__ import annotations

from django.contrib import admin
from django.db.models import OuterRef, QuerySet, Subquery
from django.http import HttpRequest

from jobexec.models import Job, JobProgress

from . import filters
from .job_actions import Activate, Cancel, Delete, Reschedule, ResetRetries, SetPriority, Suspend
from .job_page import JobTableAdmin


@admin.register(Job)
class JobAdmin(JobTableAdmin):
    """Jobs that may run now, newest first."""

    def get_queryset(self, request: HttpRequest) -> QuerySet[Job]:
        """With what running jobs say of their progress: one look-up by primary key for each row that is shown."""
        said = JobProgress.objects.filter(job_id=OuterRef("pk"))
        jobs: QuerySet[Job] = super().get_queryset(request)
        return jobs.annotate(progress_done=Subquery(said.values("done")), progress_total=Subquery(said.values("total")))

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
    own_columns = ("progress",)
    sortable_by = ("age",)
    ordering = ("-id",)
    actions = (ResetRetries(), Suspend(), Activate(), Reschedule(), SetPriority(), Cancel(), Delete())
