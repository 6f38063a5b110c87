"""Suspend and activate: instances, versions, and whole processes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from jobexec.admin.common import display
from jobexec.admin.common.actions import Outcome
from jobexec.admin.common.forms import LiftForm, SuspendForm
from jobexec.admin.common.paging import CappedCount
from jobexec.admin.common.tenancy import is_restricted
from jobexec.exceptions import InvalidJob
from jobexec.models import Suspension
from jobexec.operations.manage.verbs import period

from ..models import ProcessDefinition, ProcessInstance
from ..operations.suspend import activate, suspend
from ..store.suspensions import refusal_of_start, suspension_of
from .common import ProcessAction

#: Definitions of which the question says how many instances they have.
_COUNTED = 10


class Suspend(ProcessAction):
    """Suspend instances, immediately or from a date."""

    name = permission = "suspend"
    description = gettext_lazy("Suspend selected %(verbose_name_plural)s…")
    label = gettext_lazy("Suspend…")
    form_class = SuspendForm
    warning = gettext_lazy(
        "Their jobs do not run, their tasks cannot be claimed or completed, and messages cannot be correlated. "
        "Running jobs finish. Instances that they have called are not suspended."
    )
    name_column = "business_key"

    def operate(self, key: Any, using: str, data: Mapping[str, Any]) -> None:
        suspend(key, at=data["at"], until=data["until"], using=using)

    def done(self, count: int, data: Mapping[str, Any]) -> str:
        text = ngettext(
            "%(count)d process instance is suspended%(dates)s.",
            "%(count)d process instances are suspended%(dates)s.",
            count,
        )
        return text % {"count": count, "dates": period(data)}


class Activate(ProcessAction):
    """Undo that, now or at a date."""

    name = "activate"
    permission = "suspend"
    description = gettext_lazy("Activate selected %(verbose_name_plural)s…")
    label = gettext_lazy("Activate…")
    form_class = LiftForm
    warning = gettext_lazy("This lifts the suspension of the instances themselves, even if it is only planned.")
    name_column = "business_key"

    def operate(self, key: Any, using: str, data: Mapping[str, Any]) -> None:
        activate(key, at=data["at"], using=using)
        if data["at"] is None and (found := self.left(key, using)) is not None:
            raise InvalidJob(_("something else still suspends it: %(what)s") % {"what": found})

    def left(self, key: Any, using: str) -> Suspension | None:
        """The other suspensions that cover it."""
        row = ProcessInstance.objects.using(using).filter(pk=key).values_list("definition_id", "tenant_id").first()
        return None if row is None else suspension_of(using, key, *row)

    def done(self, count: int, data: Mapping[str, Any]) -> str:
        values = {"count": count, "at": display.absolute(data["at"]) if data["at"] else ""}
        if data["at"]:
            text = ngettext(
                "The suspension of %(count)d process instance ends %(at)s.",
                "The suspensions of %(count)d process instances end %(at)s.",
                count,
            )
        else:
            text = ngettext("%(count)d process instance is active.", "%(count)d process instances are active.", count)
        return text % values


class WhichForm(forms.Form):
    """A version, or the whole process in its tenant."""

    VERSION, PROCESS = "version", "process"
    which = forms.ChoiceField(
        label=gettext_lazy("What"),
        choices=[(VERSION, gettext_lazy("This version")), (PROCESS, gettext_lazy("All versions of the process"))],
        help_text=gettext_lazy(
            "All versions, including those that are deployed later; for a process without a tenant, for all tenants. "
            "Flows have no versions."
        ),
    )


class SuspendDefinitionForm(WhichForm, SuspendForm):
    include_instances = forms.BooleanField(
        label=gettext_lazy("Include running instances"),
        required=False,
        initial=True,
        help_text=gettext_lazy(
            "Otherwise, no instance can be started, but only jobs that are created later are suspended."
        ),
    )
    field_order = ("which", "include_instances", "at", "until")


class ActivateDefinitionForm(WhichForm, LiftForm):
    pass


def scope_of(row: ProcessDefinition, data: Mapping[str, Any]) -> dict[str, Any]:
    """The scope that a definition stands for: its version, or its key; flows have no versions.

    What belongs to no tenant may run for all of them; who is limited to some tenants reaches no further.
    """
    if row.version is not None and data["which"] == WhichForm.VERSION:
        return {"version": row.version, "tenant_id": row.tenant_id}
    return {"tenant_id": row.tenant_id} if row.tenant_id or data["restricted"] else {}


class OfDefinitions(ProcessAction):
    """An action on definitions, with the number of affected instances."""

    name_column = "key"

    def perform_for(
        self, request: HttpRequest, queryset: QuerySet[Any], using: str, data: Mapping[str, Any]
    ) -> Outcome:
        return self.perform(queryset, using, {**data, "restricted": is_restricted(request)})

    def perform(self, queryset: QuerySet[Any], using: str, data: Mapping[str, Any]) -> Outcome:
        """Perform the action once for each process, even if several of its versions are selected."""
        outcome, seen = Outcome(), set()
        for row in queryset.only("pk", "key", "version", "tenant_id"):
            meant = (row.key, *sorted(scope_of(row, data).items()))
            if meant not in seen:
                seen.add(meant)
                found = super().perform(queryset.filter(pk=row.pk), using, data)
                outcome.changed += found.changed
                outcome.skipped |= found.skipped
        return outcome

    def affected(self, request: HttpRequest, queryset: QuerySet[Any]) -> list[str]:
        """The number of running instances of each version and of its process, as far as the action reaches."""
        told, restricted = [], is_restricted(request)
        for row in queryset.only("pk", "key", "version", "tenant_id")[:_COUNTED]:
            running = ProcessInstance.objects.using(queryset.db).active().filter(definition_key=row.key)
            if row.tenant_id or restricted:
                running = running.filter(tenant_id=row.tenant_id)
            values = {
                "definition": row,
                "version": CappedCount.of(running.filter(definition_id=row.pk)),
                "process": CappedCount.of(running),
            }
            text = _("%(definition)s: running instances of this version: %(version)s, of all versions: %(process)s.")
            told.append(text % values)
        return told


class SuspendDefinition(Suspend, OfDefinitions):
    """Suspend a process: no instance starts, and its instances are suspended."""

    form_class = SuspendDefinitionForm
    name_column = "key"
    warning = gettext_lazy("No instance can be started, not even by a message, a timer or another process.")

    def operate(self, key: Any, using: str, data: Mapping[str, Any]) -> None:
        row = ProcessDefinition.objects.using(using).get(pk=key)
        dates = {"at": data["at"], "until": data["until"], "include_instances": data["include_instances"]}
        suspend(row.key, **scope_of(row, data), **dates, using=using)

    def done(self, count: int, data: Mapping[str, Any]) -> str:
        text = ngettext(
            "%(count)d process definition is suspended%(dates)s.",
            "%(count)d process definitions are suspended%(dates)s.",
            count,
        )
        return text % {"count": count, "dates": period(data)}


class ActivateDefinition(Activate, OfDefinitions):
    """Undo that."""

    form_class = ActivateDefinitionForm
    name_column = "key"
    warning = gettext_lazy("This lifts a suspension of exactly what you choose: of the version, or of all versions.")

    def operate(self, key: Any, using: str, data: Mapping[str, Any]) -> None:
        row = ProcessDefinition.objects.using(using).get(pk=key)
        activate(row.key, **scope_of(row, data), at=data["at"], using=using)
        if data["at"] is None and (found := refusal_of_start(using, row.pk, row.tenant_id)) is not None:
            raise InvalidJob(_("something else still suspends it: %(what)s") % {"what": found})

    def done(self, count: int, data: Mapping[str, Any]) -> str:
        values = {"count": count, "at": display.absolute(data["at"]) if data["at"] else ""}
        if data["at"]:
            text = ngettext(
                "The suspension of %(count)d process definition ends %(at)s.",
                "The suspensions of %(count)d process definitions end %(at)s.",
                count,
            )
        else:
            text = ngettext(
                "%(count)d process definition is active.", "%(count)d process definitions are active.", count
            )
        return text % values
