"""Jobs that wait for an operator."""

from __future__ import annotations

from django.contrib import admin
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from jobexec.models import DeadLetterJob

from ..common import display, filters, text_filters
from .actions import Delete, Reencrypt, Requeue, SetPriority
from .enqueue import Rerun
from .page import JobTableAdmin


@admin.register(DeadLetterJob)
class DeadLetterJobAdmin(JobTableAdmin):
    """Dead letters, the latest first."""

    list_display = (
        "handler",
        "instance_link",
        "standing",
        "died",
        "attempts",
    )
    list_filter = (
        filters.CategoryFilter,
        filters.HandlerFilter,
        filters.DIED_AT,
        filters.CREATE_TIME,
        text_filters.TenantFilter,
        text_filters.DefinitionKeyFilter,
        text_filters.FingerprintFilter,
    )
    sortable_by = ("died",)
    ordering = ("-died_at", "-id")
    own_columns = ("died_at",)
    actions = (Rerun(), Requeue(), SetPriority(), Reencrypt(), Delete())

    @admin.display(description=_("died"), ordering="died_at")
    def died(self, job: DeadLetterJob) -> str | SafeString:
        return display.relative(job.died_at, display.now(job))
