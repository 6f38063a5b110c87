"""What is suspended beyond single jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from jobexec import operations
from jobexec.models import Suspension

from .actions import Action, Outcome
from .base import TableAdmin
from .forms import ConfirmForm


class Lift(Action):
    """Activate everything in the scope."""

    name, permission = "lift", "activate"
    description = gettext_lazy("Lift selected %(verbose_name_plural)s…")
    label = gettext_lazy("Lift…")
    form_class = ConfirmForm
    warning = gettext_lazy("All jobs in it become runnable, unless something else suspends them.")

    def perform(self, queryset: QuerySet[Any], using: str, data: Mapping[str, Any]) -> Outcome:
        outcome = Outcome()
        for pk, scope, value in list(queryset.values_list("pk", "scope", "value")):
            operations.activate(using=using, **{scope: value})
            outcome.changed.append(pk)
        return outcome

    def done(self, count: int, data: Mapping[str, Any]) -> str:
        text = ngettext("%(count)d suspension lifted.", "%(count)d suspensions lifted.", count)
        return text % {"count": count}

    def respond(self, modeladmin: TableAdmin, request: HttpRequest) -> HttpResponse | None:
        return None  # the row, and so its page, is gone

    def remembered(self, data: Mapping[str, Any]) -> str:
        return _("Lifted.")


@admin.register(Suspension)
class SuspensionAdmin(TableAdmin):
    """Suspended process instances, process definitions, job definitions and tenants."""

    list_display = ("scope", "value", "create_time")
    list_display_links = ("value",)
    list_filter = ("scope",)
    search_fields = ("value__startswith",)
    ordering = ("-id",)
    actions = (Lift(),)

    def has_activate_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("jobexec.activate_job")
