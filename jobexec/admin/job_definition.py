"""The handlers that executors have registered."""

from __future__ import annotations

from django.contrib import admin

from jobexec.models import JobDefinition

from .base import TableAdmin


@admin.register(JobDefinition)
class JobDefinitionAdmin(TableAdmin):
    """Handlers with their options, by name."""

    list_display = (
        "id",
        "category",
        "priority",
        "retry_plan",
        "exclusive",
        "atomic",
        "process_definition_key",
        "last_registered",
    )
    list_filter = ("exclusive", "atomic")
    search_fields = ("id__startswith", "process_definition_key__exact")
    ordering = ("id",)
