"""The handlers that executors have registered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from jobexec import operations
from jobexec.models import JobDefinition

from .actions import Action, Outcome
from .base import TableAdmin
from .forms import SuspendForm
from .job_actions import dates


class SuspendDefinition(Action):
    """Keep all jobs of a handler from running, also those that are still to come."""

    name, permission = "suspend", "suspend"
    description = gettext_lazy("Suspend the jobs of selected %(verbose_name_plural)s…")
    label = gettext_lazy("Suspend…")
    form_class = SuspendForm
    warning = gettext_lazy("Also the jobs that are created later. Running jobs finish. Lift it among the suspensions.")

    def perform(self, queryset: QuerySet[Any], using: str, data: Mapping[str, Any]) -> Outcome:
        outcome = Outcome()
        for name in list(queryset.values_list("pk", flat=True)):
            operations.suspend(job_definition_id=name, using=using, at=data["at"], until=data["until"])
            outcome.changed.append(name)
        return outcome

    def done(self, count: int, data: Mapping[str, Any]) -> str:
        text = ngettext("%(count)d definition suspended%(dates)s.", "%(count)d definitions suspended%(dates)s.", count)
        return text % {"count": count, "dates": dates(data)}

    def remembered(self, data: Mapping[str, Any]) -> str:
        return _("Suspended%(dates)s.") % {"dates": dates(data)}


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
    actions = (SuspendDefinition(),)

    def has_suspend_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("jobexec.suspend_job")
