"""Handlers that executors have registered."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from django.contrib import admin
from django.db.models import Case, When
from django.urls import path
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext

from jobexec.identifiers import OWN
from jobexec.models import JobDefinition, Suspension, SuspensionScope

from ..common import display
from ..common.base import in_the_name_of_its_user
from ..common.permissions import OperationPermissions
from ..common.search import HandlerSearch
from ..pages.incident_groups import incident_groups_view
from ..pages.instance import instance_view
from ..pages.subject import subject_view
from .actions import ActivateDefinition, ClearPriority, OverridePriority, RetryDeadLetters, SuspendDefinition


@admin.register(JobDefinition)
class JobDefinitionAdmin(OperationPermissions, HandlerSearch):
    """Handlers with their options, by name."""

    list_display = (
        "id",
        "standing",
        "category",
        "ranking",
        "retry_plan",
        "exclusive",
        "atomic",
        "last_registered",
    )
    list_filter = ("exclusive", "atomic")
    search_fields = ("id__startswith", "process_definition_key__exact")
    search_help_text = gettext_lazy("The beginning of the full or short name (charge_card), or a process definition.")
    ordering = (Case(When(id__startswith=OWN, then=1), default=0), "id")  # those of the project first
    readonly_fields = ("standing",)
    actions = (SuspendDefinition(), ActivateDefinition(), OverridePriority(), ClearPriority(), RetryDeadLetters())

    def get_urls(self) -> list[Any]:
        site = self.admin_site
        views = (subject_view, instance_view, incident_groups_view)
        subject, instance, incidents = (site.admin_view(partial(view, site=site)) for view in views)
        return [
            path("incidents/", incidents, name="jobexec_incident_groups"),
            path("of/<str:kind>/", subject, name="jobexec_subject"),
            in_the_name_of_its_user(path("instance/", instance, name="jobexec_instance")),
            *super().get_urls(),
        ]

    def complete(self, rows: Sequence[JobDefinition]) -> None:
        """Look up which definitions are suspended, or going to be."""
        by_id = {row.pk: row for row in rows}
        if not by_id:
            return
        found = Suspension.objects.using(rows[0]._state.db).filter(scope=SuspensionScope.JOB_DEFINITION, live=True)
        for suspension in found.filter(value__in=by_id):
            by_id[suspension.value].suspension = suspension  # type: ignore[attr-defined]

    @admin.display(description=gettext_lazy("state"))
    def standing(self, definition: JobDefinition) -> SafeString:
        suspension: Suspension | None = getattr(definition, "suspension", None)
        now = display.now(definition)
        if suspension is None or suspension.over(now):
            return display.badge("ok", pgettext("state", "active"))
        if suspension.begun(now):
            return display.badge("off", _("suspended"))
        return display.badge("wait", _("to be suspended"))

    @admin.display(description=gettext_lazy("priority"))
    def ranking(self, definition: JobDefinition) -> SafeString:
        if definition.overriding_priority is None:
            return format_html("{}", definition.priority)
        instead = _("instead of %(priority)d") % {"priority": definition.priority}
        return format_html('{}<br><span class="jobexec-quiet">{}</span>', definition.overriding_priority, instead)
