"""Suspensions of whole scopes, and suspensions of single jobs with dates."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from jobexec import operations
from jobexec.exceptions import InvalidJob
from jobexec.models import Suspension, SuspensionScope

from ..common import display
from ..common.actions import Action, Outcome
from ..common.base import TableAdmin
from ..common.forms import LiftForm
from ..common.permissions import OperationPermissions
from ..common.search import HandlerSearch
from ..common.tenancy import is_restricted
from .add_suspension import AddSuspension


class Lift(Action):
    """Activate everything in the scope, now or at a date."""

    name, permission = "lift", "activate"
    description = gettext_lazy("Lift selected %(verbose_name_plural)s…")
    label = gettext_lazy("Lift…")
    form_class = LiftForm
    warning = gettext_lazy(
        "All jobs in its scope can run again, unless something else suspends them. Lifting immediately also cancels a "
        "suspension that is only planned."
    )

    def perform(self, queryset: QuerySet[Any], using: str, data: Mapping[str, Any]) -> Outcome:
        outcome = Outcome()
        for suspension in list(queryset):
            try:
                operations.lift(suspension, at=data["at"])
                outcome.changed.append(suspension.pk)
            except InvalidJob as error:
                outcome.skipped[suspension.pk] = str(error)
        return outcome

    def done(self, count: int, data: Mapping[str, Any]) -> str:
        if data["at"]:
            text = ngettext("%(count)d suspension ends %(at)s.", "%(count)d suspensions end %(at)s.", count)
            return text % {"count": count, "at": display.absolute(data["at"])}
        text = ngettext("%(count)d suspension lifted.", "%(count)d suspensions lifted.", count)
        return text % {"count": count}

    def respond(self, modeladmin: TableAdmin, request: HttpRequest) -> HttpResponse | None:
        return None  # the row, and so its page, is gone


@admin.register(Suspension)
class SuspensionAdmin(OperationPermissions, AddSuspension, HandlerSearch):
    """Suspended process instances, process definitions, job definitions and tenants, and single jobs with dates."""

    list_display = ("scope", "what", "standing", "begins", "ends", "include_jobs", "create_time")
    list_display_links = ("what",)
    list_filter = ("scope",)
    search_fields = ("value__startswith",)
    search_help_text = gettext_lazy(
        "The beginning of an id, or of the full or short name of a job definition (charge_card)."
    )
    ordering = ("-id",)
    actions = (Lift(),)
    audit_name = "audit_name"

    tenant_column = "value"

    @staticmethod
    def handler_condition(term: str, names: Collection[str]) -> Q:
        return Q(scope=SuspensionScope.JOB_DEFINITION, value__in=names)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Suspension]:
        rows: QuerySet[Suspension] = super().get_queryset(request)
        return rows.filter(scope=SuspensionScope.TENANT) if is_restricted(request) else rows

    @admin.display(description=gettext_lazy("value"), ordering="value")
    def what(self, suspension: Suspension) -> str:
        return suspension.shown_value

    @admin.display(description=gettext_lazy("state"))
    def standing(self, suspension: Suspension) -> SafeString:
        now = display.now(suspension)
        if suspension.over(now):
            return display.badge("ok", _("over"))
        return display.badge("off", _("in force")) if suspension.begun(now) else display.badge("wait", _("planned"))

    @admin.display(description=gettext_lazy("from"), ordering="suspend_time")
    def begins(self, suspension: Suspension) -> str | SafeString:
        return display.exact(suspension.suspend_time, display.now(suspension))

    @admin.display(description=gettext_lazy("until"), ordering="activate_time")
    def ends(self, suspension: Suspension) -> str | SafeString:
        return display.exact(suspension.activate_time, display.now(suspension))
